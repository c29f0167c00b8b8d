"""A table of columns; each window of the features is computed in a task."""

import numpy as np

import sundog as ray


@ray.remote
def rolling(table, column, window):
    values = table[column]
    sums = np.cumsum(values)
    return float((sums[window:] - sums[:-window]).max())


class Features:
    def __init__(self, rows):
        rng = np.random.default_rng(0)
        self.table = {name: rng.normal(size=rows) for name in "abcdef"}
        self.ref = ray.put(self.table)

    def windows(self, sizes):
        for size in sizes:
            for column in self.table:
                yield rolling.options(num_cpus=1).remote(self.ref, column, size)


if __name__ == "__main__":
    ray.init(num_cpus=2)
    features = Features(400_000)
    print(max(ray.get(list(features.windows([7, 14, 30, 60, 90, 180, 360, 720])))))
