"""Threads of numeric libraries, told to what is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sundog.config import user_environ
from sundog.worker import numeric_threads
from sundog.worker.numeric_threads import VARIABLES, held, tell


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    monkeypatch.setattr("threadpoolctl.threadpool_limits", found.append)
    monkeypatch.setattr(numeric_threads, "_told", None)
    monkeypatch.setitem(sys.modules, "numpy", sys.modules[__name__])
    return found


def test_each_kind_is_told_what_its_variable_says_and_nothing_twice(told: list[dict[str, int]]) -> None:
    environ = {"OMP_NUM_THREADS": "3,2", "MKL_NUM_THREADS": "many", "OPENBLAS_NUM_THREADS": "2"}
    tell(environ)
    tell(environ)
    assert told == [{"openmp": 3, "blas": 2}]
    tell(environ | {"MKL_NUM_THREADS": "4"})
    assert told[1:] == [{"openmp": 3, "libmkl_rt": 4, "mkl_rt": 4, "blas": 2}]


def test_libraries_that_are_not_loaded_read_their_variables_themselves(
    told: list[dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "numpy")
    tell(dict.fromkeys(VARIABLES, "2"))
    monkeypatch.setitem(sys.modules, "numpy", sys.modules[__name__])
    tell(dict.fromkeys(VARIABLES, "2"))
    assert not told


def test_what_is_loaded_meanwhile_has_one_thread_and_the_users_values_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with held() as is_held:
        assert is_held and {os.environ[name] for name in VARIABLES} == {"1"}
    assert user_environ()["OMP_NUM_THREADS"] == "7" and "MKL_NUM_THREADS" not in os.environ


def test_nothing_is_held_where_it_could_not_be_told_otherwise_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    before = user_environ()
    with held() as is_held:
        assert not is_held and user_environ() == before


def test_a_library_that_was_held_gets_as_many_threads_as_a_lease_has_cpus() -> None:
    code = (
        "from sundog.worker.numeric_threads import held, tell, VARIABLES\n"
        "with held():\n    import numpy\n"
        "from threadpoolctl import threadpool_info\n"
        "count = lambda: max(each['num_threads'] for each in threadpool_info())\n"
        "print(count()); tell(dict.fromkeys(VARIABLES, '2')); print(count())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.split() == ["1", "2"]
