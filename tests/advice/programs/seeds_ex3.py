"""A program with a planted fault: serial-part. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


def other_func(i):
    time.sleep(0.15)
    return i


def ex3():
    list3 = []
    for i in range(8):
        other_func(i)  # fault: serial-part
        list3.append(nap.remote(i))
    ray.get(list3)


ex3()
