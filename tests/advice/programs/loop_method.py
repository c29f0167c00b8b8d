"""A program with a planted fault: get-in-loop. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


class Trainer:
    def __init__(self):
        self.out = {}

    def run(self, items):
        for x in items:
            ref = nap.remote(x)
            self.out[x] = ray.get(ref)  # fault: get-in-loop


trainer = Trainer()
trainer.run(range(8))
