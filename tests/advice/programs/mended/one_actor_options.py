"""The mended twin of one_actor_options.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Sleeper:
    def actor_func(self):
        time.sleep(0.15)


class Service:
    def __init__(self):
        self.backends = [Sleeper.remote() for _ in range(4)]

    def ask(self, count):
        return ray.get([self.backends[n % 4].actor_func.remote() for n in range(count)])


Service().ask(10)
