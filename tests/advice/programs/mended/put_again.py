"""Score batches with one lookup table; the table is put into the store for each of them."""

import time

import numpy as np

import sundog as ray


@ray.remote
def score(table, rows):
    time.sleep(0.02)
    return float(table[rows].sum())


def run(table, batches):
    futures = []
    ref = ray.put(table)
    for rows in batches:
        futures.append(score.remote(ref, rows))
    return sum(ray.get(futures))


if __name__ == "__main__":
    ray.init(num_cpus=4)
    rng = np.random.default_rng(0)
    table = rng.random(4_000_000)
    print(run(table, [rng.integers(0, 4_000_000, 100) for _ in range(30)]))
