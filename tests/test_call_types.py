"""What the shapes for type checkers promise, held against what the decorators really make.

Whether checkers read the shapes as meant is tested by `tests/typing` with mypy and pyright.
"""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog import actor, actor_method, call_types, remote_function


def plain(start: int) -> tuple[int, int]:
    return start, start + 1


def items(start: int) -> Iterator[int]:
    yield start


class Counter:
    def __init__(self, start: int) -> None:
        self.value = start

    @sundog.method(num_returns=2)
    def both(self, amount: int) -> tuple[int, int]:
        return self.value, amount

    @sundog.method(max_task_retries=1)
    def add(self, amount: int) -> int:
        return self.value + amount


def promised(decorator: type) -> set[object]:
    """The classes that the calls of a decorator return, as its shape says."""

    def call() -> None:
        """Stands where a class with overloads alone has no function that knows its own name."""

    call.__module__, call.__qualname__ = decorator.__module__, f"{decorator.__name__}.__call__"
    calls = typing.get_overloads(call) or [vars(decorator)["__call__"]]
    return {typing.get_origin(typing.get_type_hints(each)["return"]) for each in calls}


@pytest.mark.parametrize(
    ("decorator", "make", "targets"),
    [
        (call_types.Decorator, lambda: sundog.remote(num_cpus=2), (plain, items, Counter)),
        (call_types.ListDecorator, lambda: sundog.remote(num_returns=2), (plain,)),
        (call_types.StreamDecorator, lambda: sundog.remote(num_returns="streaming"), (items,)),
        (call_types.DynamicDecorator, lambda: sundog.remote(num_returns="dynamic"), (items,)),
    ],
)
def test_a_decorator_makes_what_its_shape_says(
    decorator: type, make: Callable[[], Callable[[object], object]], targets: tuple[object, ...]
) -> None:
    made = {type(make()(target)) for target in targets}

    assert made == promised(decorator)


@pytest.mark.parametrize(
    ("module", "shapes"), [(remote_function, "Takes"), (actor_method, "Takes"), (actor, "Makes")]
)
def test_each_number_of_leading_refs_has_its_overload(module: ModuleType, shapes: str) -> None:
    """A shape that no overload names would be dead, and the calls that it describes refused."""
    declared = {name for name in vars(call_types) if name.startswith(shapes) and name != shapes}
    verbs = [
        each for each in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(each, ast.FunctionDef)
    ]
    hints = [
        ast.unparse(first.annotation)
        for each in verbs
        if each.name == "remote"
        for first in each.args.args[:1] + each.args.posonlyargs[:1]
        if first.annotation is not None
    ]

    assert declared == {f"{shapes}{number}" for number in range(1, 5)}
    assert {hint.partition("[")[0] for hint in hints} >= declared


def test_a_method_under_the_decorator_is_called_as_it_is_on_an_instance() -> None:
    counter = Counter(1)

    assert counter.both(2) == (1, 2)
    assert counter.add(2) == 3


def test_the_shape_of_a_constructor_reads_an_attribute_that_actor_classes_have() -> None:
    front: Any = sundog.remote(Counter)

    assert isinstance(vars(call_types.Makes)["_cls"], property)
    assert front._cls is Counter


def test_shapes_refuse_to_run() -> None:
    method: call_types.TypedMethod[Counter, [int], int, Any] = call_types.TypedMethod()
    with pytest.raises(NotImplementedError):
        method(Counter(1), 2)
    with pytest.raises(NotImplementedError):
        method.__get__(Counter(1), Counter)
