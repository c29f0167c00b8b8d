"""Simulated annealing: every round starts from the best that the round before found."""

import random
import time

import sundog


@sundog.remote
def search(start, seed):
    rng = random.Random(seed)
    time.sleep(0.05)
    return min((start + rng.uniform(-1, 1) for _ in range(50)), key=abs)


sundog.init(num_cpus=4)
best = 10.0
for round_ in range(10):
    candidates = sundog.get([search.remote(best, round_ * 4 + n) for n in range(4)])
    best = min(candidates + [best], key=abs)
print(best)
