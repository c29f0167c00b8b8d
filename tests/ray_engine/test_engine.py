"""How functions and classes of sundog become Ray's."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog import engines
from sundog.ray_engine.engine import RayEngine


class Native:
    """Stands for Ray's remote function."""

    def __init__(self, target: Any, base: dict[str, Any], asked: dict[str, Any]) -> None:
        self.target, self.base, self.asked = target, base, asked

    def options(self, **asked: Any) -> Native:
        return Native(self.target, self.base, asked)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        return self.target, self.base, self.asked, args, kwargs


class FakeRay(ModuleType):
    """Stands for Ray."""

    made = 0

    def remote(self, *args: Any, **base: Any) -> Any:
        def make(target: Any) -> Native:
            self.made += 1
            return Native(target, base, {})

        return make(args[0]) if args else make

    def is_initialized(self) -> bool:
        return False


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = RayEngine(FakeRay("ray"), is_driver=True)
    monkeypatch.setattr(engines, "foreign", made)
    return made


def add(a: int, b: int = 1) -> int:
    return a + b


def test_a_function_is_bound_once_for_all_its_options(engine: RayEngine) -> None:
    front: Any = sundog.remote(max_calls=5)(add)
    target, base, asked, args, kwargs = front.remote(1, b=2)
    assert (target.__name__, base, asked, args, kwargs) == ("add", {"max_calls": 5}, {}, (1,), {"b": 2})
    _, _, asked, _, _ = front.options(num_cpus=3).remote(1)
    assert asked == {"num_cpus": 3.0} and engine.ray.made == 1
    front.options(timeout_s=1).remote(1)  # the shim itself is another
    assert engine.ray.made == 2


def test_a_call_that_does_not_fit_is_refused_as_on_the_local_engine(engine: RayEngine) -> None:
    with pytest.raises(TypeError, match="add"):
        front: Any = sundog.remote(add)
        front.remote(1, 2, 3)


def test_copies_by_pickle_share_what_is_exported(engine: RayEngine) -> None:
    front: Any = sundog.remote(add)
    engine.bind(front)
    assert engine.ray.made == 1 and front._native
    function, arguments = front.__reduce__()
    copy = function(*arguments)
    copy.remote(1)
    assert engine.ray.made == 1


def test_an_option_that_ray_lacks_is_refused_with_the_first_call(engine: RayEngine) -> None:
    with pytest.raises(ValueError, match="queue_timeout_s="):
        sundog.remote(queue_timeout_s=1)(add).remote(1)


def test_nothing_of_this_is_imported_by_a_plain_program() -> None:
    import subprocess

    code = "import sundog, sys; sundog.remote(len); print([m for m in sys.modules if 'ray_engine' in m])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
