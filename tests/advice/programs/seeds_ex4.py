"""A program with a planted fault: one-actor. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self):
        time.sleep(0.15)


def ex4():
    actor_example = Sleeper.remote()  # fault: one-actor
    five_results = []
    for _ in range(8):
        five_results.append(actor_example.actor_func.remote())
    ray.get(five_results)


ex4()
