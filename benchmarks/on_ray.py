"""What the shim costs on a Ray cluster: sundog's front and Ray's own in turn, in one program on one cluster.

    python -m benchmarks.on_ray [--rounds 5]        needs Ray; RAY_ADDRESS names a cluster, without it one is started
    python -m benchmarks.on_ray --starts 5          the same, and how long `init()` takes, in new processes in turn

Prints, for each kind of work, the rate through Ray's own objects, the rate through sundog's with recording on, and the
median of the ratios of neighbours; of a start, the seconds of `init()` and until the first result after it. Owns the
measurement alone. Runs in the driver.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import sundog
from sundog.ray_engine.versions import import_ray

TASKS, CALLS, SLOW = 1000, 2000, 100


def nothing() -> None:
    """A task that does nothing."""


def sleep_10_ms() -> None:
    """A task of ten milliseconds."""
    time.sleep(0.01)


class Actor:
    """An actor whose call does nothing."""

    def nothing(self) -> None:
        """Nothing."""

    async def ask(self) -> None:
        """Nothing, in an event loop."""


class Plain:
    """An actor without an event loop."""

    def nothing(self) -> None:
        """Nothing."""


def rate(count: int, call: Callable[[], Any]) -> float:
    """How many of these end in a second."""
    start = time.perf_counter()
    sundog.get([call() for _ in range(count)])
    return count / (time.perf_counter() - start)


def measure(rounds: int) -> dict[str, tuple[float, float, float]]:
    """For each kind of work: Ray's rate, sundog's, and the median ratio."""
    ray: Any = import_ray()
    kinds: list[tuple[str, int, Callable[[Any], Any]]] = [
        ("tasks", TASKS, lambda remote: remote(nothing).remote),
        ("actor calls", CALLS, lambda remote: remote(Plain).remote().nothing.remote),
        ("asyncio calls", CALLS, lambda remote: remote(Actor).remote().ask.remote),
        ("tasks of 10 ms", SLOW, lambda remote: remote(sleep_10_ms).remote),
    ]
    found = {}
    for name, count, make in kinds:
        theirs, ours = make(ray.remote), make(sundog.remote)
        for call in (theirs, ours):
            rate(count // 2, call)  # workers are up
        pairs = []
        for number in range(rounds):
            order = ((theirs, 0), (ours, 1)) if number % 2 else ((ours, 1), (theirs, 0))
            rates = {which: rate(count, call) for call, which in order}
            pairs.append((rates[0], rates[1]))
        found[name] = (
            statistics.median(pair[0] for pair in pairs),
            statistics.median(pair[1] for pair in pairs),
            statistics.median(pair[1] / pair[0] for pair in pairs),
        )
    return found


START = """
import sys, time
import ray, sundog
theirs = sys.argv[1] == "ray"
began = time.perf_counter()
if theirs:
    ray.init(address=sys.argv[2], log_to_driver=False, logging_level="error")
else:
    sundog.init(engine="ray", address=sys.argv[2], log_to_driver=False, logging_level="error")
ready = time.perf_counter()
verbs = ray if theirs else sundog
verbs.get(verbs.remote(lambda: 1).remote())
print(ready - began, time.perf_counter() - began)
verbs.shutdown()
"""


def starts(count: int, address: str) -> None:
    """Start programs of both kinds in turn, and print how long they took."""
    environ = {**os.environ, "SUNDOG_SHIP_TO_NODES": "0"}
    found: dict[str, list[list[float]]] = {"ray": [], "sundog": []}
    for _ in range(count + 1):  # the first of each finds no bytecode, and no worker
        for name, rows in found.items():
            said = subprocess.check_output(
                [sys.executable, "-c", START, name, address], env=environ, text=True
            )
            rows.append([float(word) for word in said.split()])
    print(f"\n{'':16}{'init':>10}{'1st result':>12}   seconds, medians (bests)")
    for name, rows in found.items():
        columns = list(zip(*rows[1:], strict=True))
        print(f"{name:16}" + "".join(f"{statistics.median(c):8.2f} ({min(c):.2f})" for c in columns))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=0)
    given = parser.parse_args()
    with sundog.init(engine="ray", log_to_driver=False) as context:
        print(f"{'':16}{'Ray':>10}{'sundog':>10}{'ratio':>8}")
        for name, (theirs, ours, ratio) in measure(given.rounds).items():
            print(f"{name:16}{theirs:10.0f}{ours:10.0f}{ratio:8.2f}")
        if given.starts:
            starts(given.starts, str(context["gcs_address"]))


if __name__ == "__main__":
    main()
