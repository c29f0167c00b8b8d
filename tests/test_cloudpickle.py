"""The pickler under Ray's name for it: the package's own names, and errors that say what cannot be pickled."""

from __future__ import annotations

import io
import threading

import pytest

from sundog import cloudpickle


def test_a_lambda_goes_there_and_back() -> None:
    assert cloudpickle.loads(cloudpickle.dumps(lambda x: x + 1))(2) == 3
    file = io.BytesIO()
    cloudpickle.dump(lambda: "read", file)
    file.seek(0)
    assert cloudpickle.load(file)() == "read"


def test_names_of_the_package_are_there() -> None:
    assert cloudpickle.CloudPickler is cloudpickle.Pickler
    assert cloudpickle.register_pickle_by_value.__module__.startswith("cloudpickle")


def test_a_name_that_the_package_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = cloudpickle.no_such_name


def test_the_part_that_cannot_be_pickled_is_named() -> None:
    value = {"model": {"lock": threading.Lock()}}
    with pytest.raises(TypeError, match="lock"):
        cloudpickle.dumps_debug(value)
    with pytest.raises(TypeError, match="lock"):
        cloudpickle.dump_debug(value, io.BytesIO())


def test_what_can_be_pickled_is() -> None:
    file = io.BytesIO()
    cloudpickle.dump_debug([1, 2], file)
    assert cloudpickle.loads(file.getvalue()) == [1, 2] == cloudpickle.loads(cloudpickle.dumps_debug([1, 2]))
