"""The mended twin of seeds_ex3.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
def other_func(i):
    time.sleep(0.15)
    return i


def ex3():
    list3 = []
    for i in range(8):
        list3.append(nap.remote(other_func.remote(i)))
    ray.get(list3)


ex3()
