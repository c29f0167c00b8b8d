"""A program with a planted fault: get-in-loop. Run by tests/advice/table.py."""

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
        list1.append(ray.get(nap.remote(i)))  # fault: get-in-loop
    return list1


ex1()
