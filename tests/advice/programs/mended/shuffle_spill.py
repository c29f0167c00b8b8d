"""A shuffle through a store that is too small for it."""

import numpy as np

import sundog as ray


@ray.remote
def split(seed, parts):
    rows = np.random.default_rng(seed).random(1_500_000)
    return [rows[i::parts].copy() for i in range(parts)]


@ray.remote
def join(number, *parts):
    return float(sum(part[number].mean() for part in parts))


if __name__ == "__main__":
    ray.init(object_store_memory=600 * 1024 * 1024)
    made = [split.remote(i, 4) for i in range(14)]
    print(sum(ray.get([join.remote(n, *made) for n in range(4)])))
