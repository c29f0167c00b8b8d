"""A program with a planted fault: unbalanced-actors. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self):
        time.sleep(0.15)


workers = {name: Sleeper.remote() for name in "abc"}
waiting = []
for name in "aaaaaaabc":
    waiting.append(workers[name].actor_func.remote())  # fault: unbalanced-actors
ray.get(waiting)
