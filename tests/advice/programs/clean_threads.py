"""Threads of the program each submit and wait: together they keep the CPUs busy."""

import time
from concurrent.futures import ThreadPoolExecutor

import sundog as ray


@ray.remote
def resize(size):
    time.sleep(0.08)
    return size // 2


def ask(size):
    return ray.get(resize.remote(size))


if __name__ == "__main__":
    ray.init(num_cpus=4)
    with ThreadPoolExecutor(4) as pool:
        print(sum(pool.map(ask, range(32))))
