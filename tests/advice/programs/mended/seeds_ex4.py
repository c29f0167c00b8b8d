"""The mended twin of seeds_ex4.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self):
        time.sleep(0.15)


def ex4():
    actors = [Sleeper.remote() for _ in range(4)]
    five_results = []
    for i in range(8):
        five_results.append(actors[i % 4].actor_func.remote())
    ray.get(five_results)


ex4()
