"""The grid search with 32 MB of data, which every task needs. Runs in driver and workers."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.realwork import WORKERS
from benchmarks.realwork.programs.grid_search import data as _data

_ROWS, _COLUMNS = 20_000, 200


def search(n_jobs: int) -> str:
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    features, labels = _data(_ROWS, _COLUMNS)
    grid = {"alpha": [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]}
    found = GridSearchCV(Ridge(), grid, cv=3, n_jobs=n_jobs)
    found.fit(features, labels)
    return f"{found.best_params_} {found.best_score_:.6f}"


def serial() -> str:
    return search(n_jobs=1)


def _through(backend: str) -> str:
    import joblib

    with joblib.parallel_config(backend=backend, n_jobs=WORKERS):
        return search(WORKERS)


def raylike(ray: Any) -> str:
    importlib.import_module(f"{ray.__name__}.util.joblib").register_ray()
    return _through("ray")


def dask(client: Any) -> str:
    return _through("dask")


def joblib(parallel: Any, delayed: Any) -> str:
    return _through("loky")
