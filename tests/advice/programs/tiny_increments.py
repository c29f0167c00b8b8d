"""A histogram is counted by an actor, one value at a time."""

import sundog as ray


@ray.remote
class Histogram:
    def __init__(self, bins):
        self.counts = [0] * bins

    def add(self, value):
        self.counts[value % len(self.counts)] += 1

    def most(self):
        return max(range(len(self.counts)), key=self.counts.__getitem__)


def values(count):
    seed = 12345
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        yield seed >> 8


if __name__ == "__main__":
    ray.init(num_cpus=2)
    histogram = Histogram.remote(64)
    for value in values(25_000):
        histogram.add.remote(value)  # fault: tasks-too-small
    print(ray.get(histogram.most.remote()))
