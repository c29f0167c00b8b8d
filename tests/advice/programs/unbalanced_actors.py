"""A program with a planted fault: unbalanced-actors. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self):
        time.sleep(0.15)


actors = [Sleeper.remote() for _ in range(4)]
keys = [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]
ray.get([actors[key].actor_func.remote() for key in keys])  # fault: unbalanced-actors
