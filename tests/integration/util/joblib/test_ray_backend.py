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


def test_workers_stay_for_the_next_parallel(ray: ModuleType) -> None:
    register_ray()

    def imported_before() -> bool:
        import sys

        known = "uuid_of_a_test" in sys.modules
        sys.modules["uuid_of_a_test"] = sys.modules[__name__ if __name__ in sys.modules else "os"]
        return known

    with joblib.parallel_config("ray", n_jobs=2):
        joblib.Parallel()(joblib.delayed(imported_before)() for _ in range(8))
        assert any(joblib.Parallel()(joblib.delayed(imported_before)() for _ in range(8)))


def test_a_large_array_is_stored_once_and_read_by_all_jobs(ray: ModuleType) -> None:
    numpy = pytest.importorskip("numpy")
    register_ray()
    array = numpy.ones(1 << 18)

    def total(data: dict[str, object], weight: int) -> tuple[float, bool]:
        values = data["values"]
        return float(values.sum() * weight), bool(values.flags.writeable)

    with joblib.parallel_config("ray", n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(total)({"values": array}, i) for i in range(12))
    assert found == [(float(array.size * i), False) for i in range(12)]


def test_results_come_as_a_generator(ray: ModuleType) -> None:
    register_ray()
    with joblib.parallel_config("ray", n_jobs=2):
        squares = joblib.Parallel(return_as="generator")(joblib.delayed(pow)(x, 2) for x in range(20))
        assert list(squares) == [x * x for x in range(20)]


def test_an_error_is_the_jobs_own_and_tells_where_it_was_raised(ray: ModuleType) -> None:
    register_ray()

    def fail_here(x: int) -> None:
        raise ZeroDivisionError(f"item {x}")

    with joblib.parallel_config("ray", n_jobs=2), pytest.raises(ZeroDivisionError) as caught:
        joblib.Parallel()(joblib.delayed(fail_here)(x) for x in range(4))
    assert type(caught.value) is ZeroDivisionError
    assert "fail_here" in str(caught.value.__cause__)


def test_threads_of_a_job_can_be_chosen(ray: ModuleType) -> None:
    register_ray()
    with joblib.parallel_config("ray", n_jobs=2, inner_max_num_threads=3):
        found = joblib.Parallel()(joblib.delayed(os.getenv)("OMP_NUM_THREADS") for _ in range(4))
    assert found == ["3"] * 4


def test_no_more_jobs_run_at_once_than_asked_for(ray: ModuleType) -> None:
    register_ray()

    @ray.remote(num_cpus=0)
    class Gauge:
        def __init__(self) -> None:
            self.now = self.most = 0

        def enter(self) -> None:
            self.now += 1
            self.most = max(self.most, self.now)

        def leave(self) -> None:
            self.now -= 1

        def peak(self) -> int:
            return self.most

    gauge = Gauge.remote()

    def job(gauge: object) -> None:
        import time

        ray.get(gauge.enter.remote())
        time.sleep(0.02)
        ray.get(gauge.leave.remote())

    with joblib.parallel_config("ray", n_jobs=2):
        joblib.Parallel(batch_size=1)(joblib.delayed(job)(gauge) for _ in range(12))
    assert ray.get(gauge.peak.remote()) <= 2
