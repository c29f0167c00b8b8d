"""The twin of scorer_factory: the table is in the store, and the task takes its ref."""

import numpy as np

import sundog as ray


@ray.remote
def score(table, threshold, query):
    distance = np.abs(table[:5000] - query).sum(axis=1)
    return int((distance < threshold).sum())


def main():
    ray.init()
    table = ray.put(np.random.default_rng(1).random((400_000, 8)))
    hits = []
    for batch in range(6):
        hits.append(ray.get([score.remote(table, 2.0, (batch * 8 + n) / 50) for n in range(8)]))
    print(sum(map(sum, hits)))


if __name__ == "__main__":
    main()
