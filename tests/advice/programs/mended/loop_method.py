"""The mended twin of loop_method.py."""

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
        refs = {x: nap.remote(x) for x in items}
        for x, ref in refs.items():
            self.out[x] = ray.get(ref)


trainer = Trainer()
trainer.run(range(8))
