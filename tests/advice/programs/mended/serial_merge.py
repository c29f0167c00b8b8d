"""Counts are made in parallel and merged by the program alone."""

import random
from collections import Counter

import sundog as ray

ray.init()


@ray.remote
def count(seed):
    rng = random.Random(seed)
    return Counter(rng.getrandbits(15) for _ in range(60_000))


@ray.remote
def merge_part(*parts):
    return merge(parts)


def merge(parts):
    total = Counter()
    for _ in range(4):
        for part in parts:
            for key, value in part.items():
                total[key] += value
    return total


parts = [count.remote(i) for i in range(12)]
total = Counter()
for part in ray.get([merge_part.remote(*parts[:6]), merge_part.remote(*parts[6:])]):
    total.update(part)
print(len(total))
