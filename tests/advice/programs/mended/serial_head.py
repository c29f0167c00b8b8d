"""The mended twin of serial_head.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
def load(part):
    time.sleep(0.2)
    return [part, part + 4]


def main():
    items = [x for part in ray.get([load.remote(n) for n in range(4)]) for x in part]
    ray.get([nap.remote(x) for x in items])


main()
