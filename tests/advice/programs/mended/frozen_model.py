"""A task gets the ref of the model's weights."""

import numpy as np

import sundog as ray


class Model:
    def __init__(self, size):
        self.weights = ray.put(np.random.default_rng(0).normal(size=(size, size)))


@ray.remote
def score(weights, seed):
    rows = np.random.default_rng(seed).normal(size=(2, len(weights)))
    return float((rows @ weights[:, :200]).max())


def main():
    ray.init()
    model = Model(3000)
    total = 0.0
    for batch in range(4):
        total += sum(ray.get([score.remote(model.weights, batch * 10 + i) for i in range(10)]))
    print(total)


if __name__ == "__main__":
    main()
