"""`@remote` on functions and classes: what it makes, and how it may not be written. No session is started."""

from __future__ import annotations

import pickle
import subprocess
import sys

import cloudpickle
import pytest

import sundog
from sundog.actor import ActorClass
from sundog.remote_function import RemoteFunction


def double(number: int) -> int:
    return 2 * number


class Counter:
    STEP = 3

    def add(self, amount: int) -> int:
        return amount


def test_a_function_becomes_a_remote_function_and_a_class_an_actor_class() -> None:
    assert isinstance(sundog.remote(double), RemoteFunction)
    assert isinstance(sundog.remote(Counter), ActorClass)
    assert isinstance(sundog.remote(num_cpus=2)(double), RemoteFunction)
    assert sundog.remote(num_cpus=2)(Counter)._options.num_cpus == 2


def test_remote_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="twice"):
        sundog.remote(sundog.remote(double))
    with pytest.raises(TypeError, match="twice"):
        sundog.remote(num_cpus=1)(sundog.remote(Counter))


def test_what_is_neither_a_function_nor_a_class_is_refused() -> None:
    with pytest.raises(TypeError, match="functions and classes, not for int"):
        sundog.remote(num_cpus=1)(3)  # type: ignore[call-overload]


def test_a_remote_function_keeps_its_name_and_docstring_and_survives_pickling() -> None:
    remote = sundog.remote(double).options(num_cpus=3, name="twice")
    again = cloudpickle.loads(cloudpickle.dumps(remote))

    assert again.__name__ == "double" and again._function(4) == 8
    assert (again._options.num_cpus, again._options.name) == (3, "twice")


def test_an_actor_class_shows_the_constants_of_its_class_and_survives_pickling() -> None:
    remote = sundog.remote(max_restarts=2)(Counter)

    assert remote.STEP == 3 and "add" in dir(remote)
    assert pickle.loads(cloudpickle.dumps(remote))._options.max_restarts == 2


def test_the_types_cost_a_program_nothing_for_only_type_checkers_import_them() -> None:
    program = "import sundog.api, sys; print({'sundog.call_types', 'sundog.option_types'} & set(sys.modules))"

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert told.strip() == "set()"
