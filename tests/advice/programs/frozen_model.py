"""A task made in a method captures the weights of the model."""

import numpy as np

import sundog as ray


class Model:
    def __init__(self, size):
        self.weights = np.random.default_rng(0).normal(size=(size, size))

    def scorer(self):
        weights = self.weights

        @ray.remote
        def score(seed):  # fault: closure
            rows = np.random.default_rng(seed).normal(size=(2, len(weights)))
            return float((rows @ weights[:, :200]).max())

        return score


def main():
    ray.init()
    score = Model(3000).scorer()
    total = 0.0
    for batch in range(4):
        total += sum(ray.get([score.remote(batch * 10 + i) for i in range(10)]))
    print(total)


if __name__ == "__main__":
    main()
