"""The mended twin of unbalanced_actors.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self):
        time.sleep(0.15)


actors = [Sleeper.remote() for _ in range(4)]
ray.get([actors[n % 4].actor_func.remote() for n in range(11)])
