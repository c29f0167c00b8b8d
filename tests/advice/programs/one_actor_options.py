"""A program with a planted fault: one-actor. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self):
        time.sleep(0.15)


class Service:
    def __init__(self):
        self.backend = Sleeper.options(name="backend").remote()  # fault: one-actor

    def ask(self, count):
        return ray.get([self.backend.actor_func.remote() for _ in range(count)])


Service().ask(10)
