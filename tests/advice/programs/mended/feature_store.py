"""Two feature stores are asked in turn."""

import numpy as np

import sundog as ray


@ray.remote
class FeatureStore:
    def __init__(self, rows):
        self.rows = np.random.default_rng(1).random((rows, 50))

    def neighbours(self, row):
        distance = np.zeros(len(self.rows))
        for column in range(50):
            distance += (self.rows[:, column] - self.rows[row, column]) ** 2
        return np.argsort(distance)[:10]


def main():
    ray.init()
    stores = [FeatureStore.remote(40_000) for _ in range(2)]
    found = ray.get([stores[row % 2].neighbours.remote(row) for row in range(80)])
    print(sum(int(each.sum()) for each in found))


if __name__ == "__main__":
    main()
