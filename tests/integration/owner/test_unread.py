"""Errors whose refs are dropped: told if nobody has looked at them, and only then."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.integration.gates import await_true


class Told:
    """What was shown on standard error so far."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self._text = ""

    def text(self) -> str:
        self._text += self._capfd.readouterr().err
        return self._text

    def await_(self, part: str) -> None:
        await_true(lambda: part in self.text(), f"{part!r} is told")


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Told:
    return Told(capfd)


def failing(ray: ModuleType) -> Any:
    @ray.remote
    def fails(text: str) -> None:
        raise ValueError(text)

    return fails


def test_an_error_whose_ref_is_dropped_unread_is_told(ray: ModuleType, told: Told) -> None:
    fails = failing(ray)
    fails.remote("dropped at once")
    told.await_("ValueError: dropped at once")
    ref = fails.remote("dropped later")
    fails.remote("a mark")
    told.await_("ValueError: a mark")
    assert "dropped later" not in told.text()  # somebody may still read it
    del ref
    fails.remote("another mark")
    told.await_("ValueError: dropped later")


def test_an_error_that_somebody_has_looked_at_is_not_told(ray: ModuleType, told: Told) -> None:
    fails = failing(ray)

    @ray.remote
    def takes(value: Any) -> None:
        return None

    @ray.remote
    def reads(refs: list[Any]) -> str:
        try:
            ray.get(refs[0])
        except ValueError as error:
            return str(error)
        return ""

    got, waited, passed, lent = (fails.remote(f"number {i}") for i in range(4))
    with pytest.raises(ValueError, match="number 0"):
        ray.get(got)
    ray.wait([waited])
    with pytest.raises(ValueError, match="number 2"):
        ray.get(takes.remote(passed))
    assert "number 3" in ray.get(reads.remote([lent]))
    del got, waited, passed, lent
    fails.remote("a mark")
    told.await_("ValueError: a mark")
    assert "number" not in told.text()


def test_an_error_of_an_actors_call_and_of_a_workers_own_task_are_told_too(
    ray: ModuleType, told: Told
) -> None:
    @ray.remote
    class Fails:
        def fail(self) -> None:
            raise ValueError("of a call")

    @ray.remote
    def outer(fails: Any) -> None:
        fails.remote("of a worker")
        ray.get(fails.options(name="later").remote("seen"))

    actor = Fails.remote()
    actor.fail.remote()
    told.await_("ValueError: of a call")
    with pytest.raises(ValueError, match="seen"):
        ray.get(outer.remote(failing(ray)))
    told.await_("ValueError: of a worker")


def test_the_setting_silences_it(ray_session: Callable[..., ModuleType], told: Told) -> None:
    ray = ray_session(num_cpus=1, _system_config={"ignore_unhandled_errors": True})
    fails = failing(ray)
    fails.remote("dropped")
    with pytest.raises(ValueError, match="read"):
        ray.get(fails.remote("read"))
    assert "dropped" not in told.text()
