"""A method makes a task that uses self: the whole dataset goes with the function, again in each round."""

import numpy as np

import sundog as ray


class Experiment:
    def __init__(self, rows):
        self.data = np.random.default_rng(0).normal(size=(rows, 100))
        self.offset = 1.0

    def run_round(self, number):
        @ray.remote
        def bootstrap(seed):  # fault: closure
            rng = np.random.default_rng(seed)
            sample = self.data[rng.integers(0, len(self.data), 2000)]
            return float(sample.mean()) + self.offset

        return ray.get([bootstrap.remote(number * 100 + i) for i in range(8)])


def main():
    ray.init()
    experiment = Experiment(100_000)
    print(sum(sum(experiment.run_round(i)) for i in range(8)))


if __name__ == "__main__":
    main()
