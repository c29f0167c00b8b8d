"""A pipeline of three actors, each at work on another item at the same time.

The driver hands each stage the reference of what the stage before will produce. Stages wait for their inputs,
not the driver, and at most IN_FLIGHT items are under way, which bounds the memory.
"""

import random

import ray

ITEMS = 30
IN_FLIGHT = 6
READINGS = 500


@ray.remote
class Sensor:
    """Stage one: produces raw readings, some of them broken."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def read(self, item: int) -> list[float | None]:
        return [None if self.rng.random() < 0.05 else self.rng.gauss(item, 1.0) for _ in range(READINGS)]


@ray.remote
class Cleaner:
    """Stage two: fills a hole with the last good reading, and counts the holes."""

    def __init__(self) -> None:
        self.holes = 0

    def clean(self, readings: list[float | None]) -> list[float]:
        last = 0.0
        cleaned = []
        for reading in readings:
            self.holes += reading is None
            last = last if reading is None else reading
            cleaned.append(last)
        return cleaned

    def count_holes(self) -> int:
        return self.holes


@ray.remote
class Archive:
    """Stage three: keeps one number per item, in the order in which the items came."""

    def __init__(self) -> None:
        self.means: list[float] = []

    def store(self, readings: list[float]) -> int:
        self.means.append(sum(readings) / len(readings))
        return len(self.means)

    def report(self) -> list[float]:
        return self.means


def main() -> None:
    ray.init()
    sensor, cleaner, archive = Sensor.remote(seed=7), Cleaner.remote(), Archive.remote()
    under_way: list = []
    for item in range(ITEMS):
        if len(under_way) == IN_FLIGHT:
            _, under_way = ray.wait(under_way, num_returns=1)
        under_way.append(archive.store.remote(cleaner.clean.remote(sensor.read.remote(item))))
    print(f"last stored: number {max(ray.get(under_way))}")

    means = ray.get(archive.report.remote())
    print(f"in order: {means == sorted(means)}")
    print(f"holes filled: {ray.get(cleaner.count_holes.remote())}")
    print("means: " + " ".join(f"{mean:.2f}" for mean in means[::6]))
    ray.shutdown()


if __name__ == "__main__":
    main()
