"""Load, clean, join and report: refs go from task to task."""

import time

import sundog as ray


@ray.remote
def load(name):
    time.sleep(0.2)
    return [name] * 10


@ray.remote
def clean(rows):
    time.sleep(0.15)
    return [row.upper() for row in rows]


@ray.remote
def join(*tables):
    time.sleep(0.1)
    return sum(len(table) for table in tables)


@ray.remote
def publish(*counts):
    time.sleep(0.05)
    return sum(counts)


if __name__ == "__main__":
    ray.init(num_cpus=4)
    cleaned = {name: clean.remote(load.remote(name)) for name in "abcdefghijkl"}
    names = sorted(cleaned)
    joined = [join.remote(cleaned[one], cleaned[two]) for one, two in zip(names[::2], names[1::2])]
    print(ray.get(publish.remote(*joined)))
