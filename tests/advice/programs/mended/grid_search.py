"""Ridge regression over a grid of parameters."""

import itertools

import numpy as np

import sundog as ray


@ray.remote
def evaluate(X, y, alpha, degree, seed):
    rng = np.random.default_rng(seed)
    scores = []
    for _fold in range(30):
        rows = rng.permutation(len(X))
        train, test = rows[:1500], rows[1500:]
        Z = np.hstack([X**d for d in range(1, degree + 1)])
        A = Z[train].T @ Z[train] + alpha * np.eye(Z.shape[1])
        w = np.linalg.solve(A, Z[train].T @ y[train])
        scores.append(float(((Z[test] @ w - y[test]) ** 2).mean()))
    return sum(scores) / len(scores)


class GridSearch:
    def __init__(self, grid):
        self.grid = grid
        self.results = []

    def fit(self, X, y):
        X_ref, y_ref = ray.put(X), ray.put(y)
        refs = [evaluate.remote(X_ref, y_ref, alpha, degree, 0) for alpha, degree in self.grid]
        for (alpha, degree), score in zip(self.grid, ray.get(refs)):
            self.results.append((score, alpha, degree))
        return min(self.results)


if __name__ == "__main__":
    ray.init()
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 20))
    y = X[:, 0] ** 2 + rng.normal(size=2000)
    grid = list(itertools.product([0.01, 0.1, 1.0, 10.0], [1, 2, 3, 4, 5]))
    print(GridSearch(grid).fit(X, y))
