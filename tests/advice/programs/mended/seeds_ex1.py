"""The mended twin of seeds_ex1.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


def ex1():
    list1 = []
    for i in range(8):
        list1.append(nap.remote(i))
    return ray.get(list1)


ex1()
