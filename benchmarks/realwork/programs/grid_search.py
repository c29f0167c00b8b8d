"""scikit-learn's GridSearchCV, parallel through joblib's backend of each system. Runs in driver and workers."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.realwork import WORKERS

_ROWS, _COLUMNS = 2_000, 20


def data(rows: int = _ROWS, columns: int = _COLUMNS) -> tuple[Any, Any]:
    dice = np.random.default_rng(7)
    features = dice.random((rows, columns))
    return features, (features[:, 0] + features[:, 1] > 1).astype(int)


def search(features: Any, labels: Any, n_jobs: int) -> str:
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    grid = {"max_depth": [2, 3, 4, 5, 6, 7], "min_samples_leaf": [1, 3, 5, 7]}
    found = GridSearchCV(DecisionTreeClassifier(random_state=0), grid, cv=3, n_jobs=n_jobs)
    found.fit(features, labels)
    return f"{sorted(found.best_params_.items())} {found.best_score_:.6f}"


def serial() -> str:
    return search(*data(), n_jobs=1)


def _through(backend: str) -> str:
    import joblib

    with joblib.parallel_config(backend=backend, n_jobs=WORKERS):
        return search(*data(), n_jobs=WORKERS)


def raylike(ray: Any) -> str:
    importlib.import_module(f"{ray.__name__}.util.joblib").register_ray()
    return _through("ray")


def dask(client: Any) -> str:
    return _through("dask")


def joblib(parallel: Any, delayed: Any) -> str:
    return _through("loky")
