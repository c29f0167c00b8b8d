"""A search in which each trial follows from what the ones before it gave."""

import random
import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def trial(x):
    time.sleep(0.08)
    return (x - 3.0) ** 2


class Optimizer:
    def __init__(self):
        self.best, self.value, self.rng = 0.0, float("inf"), random.Random(0)

    def ask(self):
        return self.best + self.rng.gauss(0, 1)

    def tell(self, x, value):
        if value < self.value:
            self.best, self.value = x, value


optimizer = Optimizer()
for _ in range(15):
    x = optimizer.ask()
    value = ray.get(trial.remote(x))
    optimizer.tell(x, value)
print(optimizer.best)
