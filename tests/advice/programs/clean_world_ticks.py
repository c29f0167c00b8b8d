"""Regions advance in step: each tick needs the levels of the tick before."""

import time

import sundog as ray


@ray.remote
class Region:
    def __init__(self, n):
        self.n, self.level = n, float(n)

    def advance(self, left, right):
        time.sleep(0.03)
        self.level += 0.1 * (left + right - 2 * self.level)
        return self.level


class World:
    def __init__(self, count):
        self.regions = [Region.remote(n) for n in range(count)]
        self.levels = [float(n) for n in range(count)]

    def tick(self):
        count = len(self.regions)
        refs = [
            r.advance.remote(self.levels[n - 1], self.levels[(n + 1) % count])
            for n, r in enumerate(self.regions)
        ]
        self.levels = ray.get(refs)

    def run(self, days):
        for day in range(days):
            self.tick()
            if day % 10 == 0:
                print(day, sum(self.levels))


if __name__ == "__main__":
    ray.init(num_cpus=4)
    World(4).run(30)
