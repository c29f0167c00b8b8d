"""The standard library's two pools: concurrent.futures.ProcessPoolExecutor and multiprocessing.Pool.

Run in the host, with the platform's default start method. Tasks only: neither has objects, actors or nesting.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from benchmarks.systems import WORKERS, Submitter, System


class Executor(System):
    name = "ppe"
    features: ClassVar[frozenset[str]] = frozenset({"workers", "tasks", "wait"})

    def __init__(self) -> None:
        self._futures: Any = None
        self._executor: Any = None

    def load(self) -> None:
        self._futures = importlib.import_module("concurrent.futures")
        importlib.import_module("concurrent.futures.process")

    def start(self) -> None:
        self._executor = self._futures.ProcessPoolExecutor(WORKERS)

    def stop(self) -> None:
        self._executor.shutdown()

    def remote(self, function: Callable[..., object]) -> Submitter:
        submit = self._executor.submit
        return Submitter(lambda *args: submit(function, *args))

    def get(self, refs: Any) -> Any:
        return [ref.result() for ref in refs] if isinstance(refs, list) else refs.result()

    def wait(
        self, refs: Sequence[Any], num_returns: int = 1, fetch_local: bool = True
    ) -> tuple[list[Any], list[Any]]:
        when = "ALL_COMPLETED" if num_returns == len(refs) else "FIRST_COMPLETED"
        done = self._futures.wait(refs, return_when=when).done
        ready = [ref for ref in refs if ref in done][:num_returns]
        taken = set(ready)
        return ready, [ref for ref in refs if ref not in taken]


class Pool(System):
    name = "pool"
    features: ClassVar[frozenset[str]] = frozenset({"workers", "tasks"})

    def __init__(self) -> None:
        self._multiprocessing: Any = None
        self._pool: Any = None

    def load(self) -> None:
        self._multiprocessing = importlib.import_module("multiprocessing")
        importlib.import_module("multiprocessing.pool")

    def start(self) -> None:
        self._pool = self._multiprocessing.Pool(WORKERS)

    def stop(self) -> None:
        self._pool.close()
        self._pool.join()

    def remote(self, function: Callable[..., object]) -> Submitter:
        apply_async = self._pool.apply_async
        return Submitter(lambda *args: apply_async(function, args))

    def get(self, refs: Any) -> Any:
        return [ref.get() for ref in refs] if isinstance(refs, list) else refs.get()


SYSTEMS = {"ppe": Executor, "pool": Pool}
