"""A program without a fault: nothing may be found in it. Run by tests/advice/table.py."""

import time

import sundog as ray
from sundog.util import ActorPool

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self, x):
        time.sleep(0.15)


pool = ActorPool([Sleeper.remote() for _ in range(4)])
list(pool.map_unordered(lambda actor, x: actor.actor_func.remote(x), range(16)))
