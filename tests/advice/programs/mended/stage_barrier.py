"""Read, clean, score: each stage gets the refs of the one before."""

import time

import sundog as ray

SIZES = [8, 1, 1, 1, 1, 1, 1, 1]


@ray.remote
def read(size):
    time.sleep(0.05 * size)
    return [size] * 1000


@ray.remote
def clean(rows):
    time.sleep(0.1)
    return [row + 1 for row in rows]


@ray.remote
def score(rows):
    time.sleep(0.1)
    return sum(rows)


def main():
    ray.init(num_cpus=4)
    tables = [read.remote(size) for size in SIZES]
    cleaned = [clean.remote(table) for table in tables]
    print(sum(ray.get([score.remote(table) for table in cleaned])))


if __name__ == "__main__":
    main()
