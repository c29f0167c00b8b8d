"""A method makes a task that uses self: the whole dataset goes with the function, again in each round."""

import numpy as np

import sundog as ray


class Experiment:
    def __init__(self, rows):
        self.data = np.random.default_rng(0).normal(size=(rows, 100))
        self.data_ref = ray.put(self.data)
        self.offset = 1.0

    def run_round(self, number):
        return ray.get([bootstrap.remote(self.data_ref, self.offset, number * 100 + i) for i in range(8)])


@ray.remote
def bootstrap(data, offset, seed):
    rng = np.random.default_rng(seed)
    sample = data[rng.integers(0, len(data), 2000)]
    return float(sample.mean()) + offset


def main():
    ray.init()
    experiment = Experiment(100_000)
    print(sum(sum(experiment.run_round(i)) for i in range(8)))


if __name__ == "__main__":
    main()
