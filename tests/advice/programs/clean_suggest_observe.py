"""A search whose next point follows from all that it has seen, in methods of one class."""

import math
import random
import time

import sundog as ray


@ray.remote
def objective(x, seed):
    time.sleep(0.05)
    return math.sin(x) + seed * 0.01


class Search:
    def __init__(self):
        self.history = []
        self.random = random.Random(0)

    def suggest(self):
        if len(self.history) < 3:
            return self.random.uniform(0, 6)
        best = max(self.history, key=lambda pair: pair[1])
        return best[0] + self.random.gauss(0, 0.3)

    def observe(self, x, y):
        self.history.append((x, y))

    def step(self):
        x = self.suggest()
        y = sum(ray.get([objective.remote(x, seed) for seed in range(2)])) / 2
        self.observe(x, y)

    def run(self, steps):
        for _ in range(steps):
            self.step()
        return max(self.history, key=lambda pair: pair[1])


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(Search().run(18))
