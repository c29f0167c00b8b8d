"""The mended twin of unbalanced_dict.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self):
        time.sleep(0.15)


workers = {name: Sleeper.remote() for name in "abc"}
waiting = []
for name in "abcabcabc":
    waiting.append(workers[name].actor_func.remote())
ray.get(waiting)
