"""A table is cut into chunks; each goes to one task, as a dict of columns."""

import numpy as np

import sundog as ray


@ray.remote
def fit(chunk):
    x, y = chunk["x"], chunk["y"]
    weights = np.zeros(x.shape[1])
    for _ in range(30):
        weights -= 0.1 * x.T @ (x @ weights - y) / len(y)
    return weights


def main():
    ray.init()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64_000, 30))
    y = x @ np.arange(30.0)
    refs = []
    for first in range(0, len(x), 2000):
        chunk = {"x": x[first : first + 2000], "y": y[first : first + 2000]}
        refs.append(fit.remote(chunk))
    print(np.mean(ray.get(refs), axis=0).round(1)[:3])


if __name__ == "__main__":
    main()
