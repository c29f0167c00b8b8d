"""One program run: start a system, do a workload some times, say how long each took and what came out.

Started as `python -m benchmarks.realwork.program <system> <workload> <times>`, in a process of its own. Its last
line on stdout is JSON; systems may print what they like before it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from benchmarks.realwork import WAYS, WORKERS, load

MARK = "realwork "


@contextlib.contextmanager
def opened(system: str, workload: ModuleType) -> Iterator[Callable[[], object]]:
    """A started system; calling what it gives does the workload once."""
    if system == "serial":
        yield workload.serial
        return
    way = getattr(workload, WAYS[system])
    with _STARTS[system]() as given:
        yield lambda: way(*given)


@contextlib.contextmanager
def _raylike(name: str) -> Iterator[tuple[Any, ...]]:
    # Measurements must not depend on a network: no usage report, and no question about one.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    module = importlib.import_module(name)
    module.init(num_cpus=WORKERS)
    try:
        yield (module,)
    finally:
        module.shutdown()


@contextlib.contextmanager
def _futures() -> Iterator[tuple[Any, ...]]:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as executor:
        yield (executor,)


@contextlib.contextmanager
def _pool() -> Iterator[tuple[Any, ...]]:
    import multiprocessing

    with multiprocessing.Pool(WORKERS) as pool:
        yield (pool,)


@contextlib.contextmanager
def _dask() -> Iterator[tuple[Any, ...]]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield (client,)


@contextlib.contextmanager
def _loky() -> Iterator[tuple[Any, ...]]:
    from joblib import Parallel, delayed

    yield Parallel(n_jobs=WORKERS), delayed


_STARTS: dict[str, Callable[[], contextlib.AbstractContextManager[tuple[Any, ...]]]] = {
    "sundog": lambda: _raylike("sundog"),
    "ray": lambda: _raylike("ray"),
    "dask": _dask,
    "futures": _futures,
    "pool": _pool,
    "loky": _loky,
}


def main() -> None:
    """Run one program as the arguments say."""
    system, name, times = sys.argv[1:]
    workload = load(name)
    seconds: list[float] = []
    result: object = None
    with opened(system, workload) as run:
        for _ in range(int(times)):
            began = time.perf_counter()
            result = run()
            seconds.append(time.perf_counter() - began)
    print(MARK + json.dumps({"seconds": seconds, "result": result}), flush=True)


if __name__ == "__main__":
    main()
