"""The mended twin of nested_get_actor.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
class Front:
    def ask(self, x):
        return nap.remote(x)


front = Front.remote()
ray.get(ray.get([front.ask.remote(x) for x in range(8)]))
