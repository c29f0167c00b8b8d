"""A program without a fault: nothing may be found in it. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
class Counter:
    def __init__(self):
        self.total = 0

    def add(self, x):
        self.total += x
        return self.total


counter = Counter.remote()
for x in ray.get([nap.remote(x) for x in range(12)]):
    counter.add.remote(x)
print(ray.get(counter.add.remote(0)))
