"""Two programs in one session, one of them floods: how much later do the other's small tasks come back?

::

    this program ── init(num_cpus=2) ── one small task after the other, with pauses ── alone, then beside a flood
    flood (a second driver) ── joins ── a million tasks of 1 ms

Run it with sundog, or with a Python that has Ray: ``python benchmarks/fairness.py [sundog|ray] [tasks in the flood]``.
Prints medians and the 95th percentile in milliseconds, and their ratio. Both programs run on this machine's cores
beside each other, so part of the delay is the kernel's own sharing.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
import time
from typing import Any

SMALL = 30
SMALL_S = 0.02
PAUSE_S = 0.05
BATCH = 40


def flood(name: str, address: str, count: int) -> None:
    """Submit tasks of 1 ms until told to stop."""
    ray = importlib.import_module(name)
    ray.init(address=address, log_to_driver=False)

    @ray.remote
    def tiny() -> None:
        time.sleep(0.001)

    ray.get([tiny.remote() for _ in range(100)])
    print("flooding", flush=True)
    refs = [tiny.remote() for _ in range(count)]
    ray.get(refs)


def measure(ray: Any) -> dict[str, float]:
    """Latencies of single small tasks, and the time of a batch of them."""

    @ray.remote
    def small() -> None:
        time.sleep(SMALL_S)

    ray.get(small.remote())
    times = []
    for _ in range(SMALL):
        began = time.perf_counter()
        ray.get(small.remote())
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE_S)
    began = time.perf_counter()
    ray.get([small.remote() for _ in range(BATCH)])
    batch = (time.perf_counter() - began) * 1000
    times.sort()
    return {"median_ms": statistics.median(times), "p95_ms": times[int(0.95 * len(times))], "batch_ms": batch}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "sundog"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    if len(sys.argv) > 3:
        flood(name, sys.argv[3], count)
        return
    ray = importlib.import_module(name)
    info = ray.init(num_cpus=2, log_to_driver=False)
    address = info.address_info["address"]
    alone = measure(ray)
    other = subprocess.Popen(
        [sys.executable, __file__, name, str(count), address], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        for line in other.stdout:
            if "flooding" in line:
                break
        time.sleep(1.0)
        beside = measure(ray)
    finally:
        other.kill()
        other.wait()
    ray.shutdown()
    for key in alone:
        row = {"what": key, "alone": alone[key], "beside": beside[key], "ratio": beside[key] / alone[key]}
        print(json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()}))


if __name__ == "__main__":
    main()
