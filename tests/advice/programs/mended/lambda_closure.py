"""A lookup table is captured by a function that is made inside another one."""

import numpy as np

import sundog as ray


def make_scorer():
    table = np.random.default_rng(0).normal(size=(6_000_000,))
    ref = ray.put(table)

    @ray.remote
    def score(batch, table):
        return float(table[batch].sum())

    return lambda batch: score.remote(batch, ref)


if __name__ == "__main__":
    ray.init(num_cpus=2)
    score = make_scorer()
    batches = [list(range(n, n + 200)) for n in range(24)]
    refs = [score(batch) for batch in batches]
    print(sum(ray.get(refs)))
