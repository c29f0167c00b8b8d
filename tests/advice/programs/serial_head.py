"""A program with a planted fault: serial-part. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


def load():
    time.sleep(0.8)
    return range(8)


def main():
    items = load()  # fault: serial-part
    ray.get([nap.remote(x) for x in items])


main()
