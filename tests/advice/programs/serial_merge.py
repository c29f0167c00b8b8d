"""Counts are made in parallel and merged by the program alone."""

import random
from collections import Counter

import sundog as ray

ray.init()


@ray.remote
def count(seed):
    rng = random.Random(seed)
    return Counter(rng.getrandbits(15) for _ in range(60_000))


def merge(parts):
    total = Counter()
    for _ in range(4):
        for part in parts:
            for key, value in part.items():
                total[key] += value
    return total


parts = ray.get([count.remote(i) for i in range(12)])
total = merge(parts)  # fault: serial-part
print(len(total))
