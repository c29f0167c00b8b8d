"""A program with a planted fault: nested-get. Run by tests/advice/table.py."""

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
        return ray.get(nap.remote(x))  # fault: nested-get


front = Front.remote()
ray.get([front.ask.remote(x) for x in range(8)])
