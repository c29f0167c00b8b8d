"""A program without a fault: nothing may be found in it. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
def join(*parts):
    return sum(parts)


print(ray.get(join.remote(*[nap.remote(nap.remote(x)) for x in range(8)])))
