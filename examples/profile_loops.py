"""Four loops that do the same five half-second jobs, and why three of them are slow.

Run it plainly to see the seconds, under `python -m cProfile` to see which call they went to, or under
`kernprof -l` to see the line.
"""

import time
from collections.abc import Callable

import ray


@ray.remote
def func() -> None:
    time.sleep(0.5)


def other_func() -> None:
    """Work that only the driver can do, before each job."""
    time.sleep(0.3)


@ray.remote
class Sleeper:
    def __init__(self) -> None:
        self.seconds = 0.5

    def actor_func(self) -> None:
        time.sleep(self.seconds)


def ex1() -> None:
    """Slow: each result is awaited before the next job is even submitted."""
    results = []
    for _ in range(5):
        results.append(ray.get(func.remote()))


def ex2() -> None:
    """Fast: all are submitted, then awaited together."""
    results = []
    for _ in range(5):
        results.append(func.remote())
    ray.get(results)


def ex3() -> None:
    """In between: the driver's own part cannot be spread, and sets the pace."""
    results = []
    for _ in range(5):
        other_func()
        results.append(func.remote())
    ray.get(results)


def ex4() -> None:
    """Slow: one actor does one thing at a time."""
    sleeper = Sleeper.remote()
    results = []
    for _ in range(5):
        results.append(sleeper.actor_func.remote())
    ray.get(results)


def ex4_five_actors() -> None:
    """Fast: five actors, one job each."""
    results = []
    for sleeper in [Sleeper.remote() for _ in range(5)]:
        results.append(sleeper.actor_func.remote())
    ray.get(results)


def clock(loop: Callable[[], None]) -> None:
    started = time.perf_counter()
    loop()
    print(f"{loop.__name__}: {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    ray.init(num_cpus=5)
    for loop in (ex1, ex2, ex3, ex4, ex4_five_actors):
        clock(loop)
    ray.shutdown()
