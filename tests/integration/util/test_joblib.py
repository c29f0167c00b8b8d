"""joblib's Parallel on the registered backend."""

from __future__ import annotations

import os
from types import ModuleType

import pytest

from sundog.util.joblib import register_ray

joblib = pytest.importorskip("joblib")


@pytest.mark.parametrize("backend", ["ray", "sundog"])
def test_parallel_runs_on_the_sessions_processes(ray: ModuleType, backend: str) -> None:
    register_ray()
    with joblib.parallel_config(backend, n_jobs=2):
        results = joblib.Parallel()(joblib.delayed(lambda x: (x * x, os.getpid()))(x) for x in range(30))
    assert [square for square, _ in results] == [x * x for x in range(30)]
    assert os.getpid() not in {pid for _, pid in results}


def test_all_jobs_means_all_cpus_of_the_session(ray: ModuleType) -> None:
    register_ray()
    from sundog.util.joblib.ray_backend import RayBackend

    cpus = int(ray.cluster_resources()["CPU"])
    assert [RayBackend().effective_n_jobs(n) for n in (-1, -2, 1, 1000, None)] == [cpus, cpus - 1, 1, cpus, 1]
    with pytest.raises(ValueError):
        RayBackend().effective_n_jobs(0)


def test_an_error_in_a_job_is_raised(ray: ModuleType) -> None:
    register_ray()

    def fail(x: int) -> None:
        raise KeyError(x)

    with joblib.parallel_config("ray", n_jobs=2), pytest.raises(KeyError):
        joblib.Parallel()(joblib.delayed(fail)(x) for x in range(4))


def test_one_job_runs_here(ray: ModuleType) -> None:
    register_ray()
    with joblib.parallel_config("ray", n_jobs=1):
        assert joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(2)) == [os.getpid()] * 2
