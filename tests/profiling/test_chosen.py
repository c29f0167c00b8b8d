"""Functions found by name among those that a function can reach."""

from __future__ import annotations

from typing import Any

from sundog.profiling import chosen


def leaf() -> int:
    return 1


def middle() -> int:
    return leaf() + 1


class Model:
    def step(self) -> int:
        return self._half() + middle()

    def _half(self) -> int:
        return 1

    @staticmethod
    def plain() -> int:
        return 2


def outer() -> int:
    def local() -> int:
        return middle()

    return local() + Model().step()


def names(function: Any, *wanted: str, receiver: object = None) -> list[str]:
    return sorted(each.__qualname__ for each in chosen.find(function, wanted, receiver))


def test_what_a_function_calls_is_found_at_any_depth() -> None:
    assert names(outer, "leaf") == ["leaf"]
    assert names(outer, "outer", "Model.step") == ["Model.step", "outer"]
    assert names(leaf, "middle") == []


def test_a_name_may_have_its_class_or_its_module() -> None:
    assert names(outer, f"{__name__}.middle") == ["middle"]
    assert names(outer, "other.middle") == []
    assert names(Model.step, "_half", "plain", receiver=Model()) == ["Model._half", "Model.plain"]


def test_what_was_captured_is_found_too() -> None:
    def inner() -> int:
        return 3

    def task() -> int:
        return inner()

    assert [each.__name__ for each in chosen.find(task, ["inner"])] == ["inner"]
