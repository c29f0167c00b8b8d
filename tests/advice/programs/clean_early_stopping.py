"""Training stops when the loss gets no better: each round needs the one before."""

import numpy as np

import sundog as ray


@ray.remote
def loss(weights, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20_000, 20))
    for _ in range(8):
        error = float(((x @ weights - x[:, 0]) ** 2).mean())
    return error


def main():
    ray.init()
    weights, best = np.zeros(20), 1e9
    for epoch in range(30):
        weights[0] += 0.1
        mean = sum(ray.get([loss.remote(weights, epoch * 4 + n) for n in range(4)])) / 4
        if mean > best:
            break
        best = mean
    print(best)


if __name__ == "__main__":
    main()
