"""Ray's own verbs, wrapped in place."""

from __future__ import annotations

from collections import OrderedDict
from types import ModuleType
from typing import Any

import pytest

from sundog.ray_engine import engine, graft, instrument, shim, versions
from sundog.wire.inspect import measure_everything


def plain_remote(*args: Any, **options: Any) -> Any:
    return ("made", args[0]) if args else lambda target: ("made", target, options)


def double(x: int) -> int:
    return 2 * x


def test_a_program_that_decorates_gets_rays_object_around_a_shim() -> None:
    remote: Any = instrument._remote(plain_remote)
    _, target = remote(double)
    assert target is not double and target.__name__ == "double"
    _, target, options = remote(num_cpus=2)(double)
    assert target.__name__ == "double" and options == {"num_cpus": 2}


def test_a_program_of_sundogs_that_is_run_so_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    ray = ModuleType("ray")
    for name in ("remote", "get", "put", "wait", "init", "shutdown"):
        setattr(ray, name, lambda *args, name=name, **_: calls.append(name))
    monkeypatch.setattr(versions, "import_ray", lambda: ray)
    monkeypatch.setattr(graft, "graft", lambda _: None)
    instrument.instrument()
    for name in ("remote", "get", "put", "wait", "init", "shutdown"):
        engine.native(getattr(ray, name))(1)
    assert calls == ["remote", "get", "put", "wait", "init", "shutdown"]
    assert engine.native(len) is len


def test_a_program_that_is_profiled_has_shims_that_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "task", lambda target, own: own)
    assert instrument._dressed(double) == ()
    measure_everything("cpu")
    try:
        assert instrument._dressed(double) == (("profile", "*cpu"),)
    finally:
        measure_everything("")


def test_what_is_no_function_of_the_users_is_left_as_it_is() -> None:
    def of_ray() -> None:
        """A function of a library of Ray's."""

    of_ray.__module__ = "ray.data.dataset"
    assert instrument._dressed(of_ray) is of_ray
    assert instrument._dressed(len) is len


def test_a_class_becomes_one_whose_methods_are_noted() -> None:
    made = instrument._dressed(OrderedDict)
    assert isinstance(made, type) and issubclass(made, OrderedDict)
