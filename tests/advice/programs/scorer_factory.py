"""A factory makes the scoring task anew for each batch of queries; the table is captured by the inner function."""

import numpy as np

import sundog as ray


def make_scorer(table, threshold):
    @ray.remote
    def score(query):  # fault: closure
        distance = np.abs(table[:5000] - query).sum(axis=1)
        return int((distance < threshold).sum())

    return score


def main():
    ray.init()
    table = np.random.default_rng(1).random((400_000, 8))
    hits = []
    for batch in range(6):
        scorer = make_scorer(table, 2.0)
        hits.append(ray.get([scorer.remote((batch * 8 + n) / 50) for n in range(8)]))
    print(sum(map(sum, hits)))


if __name__ == "__main__":
    main()
