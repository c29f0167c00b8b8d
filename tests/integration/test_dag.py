"""Graphs of bound calls, executed with real tasks and actors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from sundog.dag import ClassNode, InputNode, MultiOutputNode


def test_graphs_run_tasks_and_actors_and_each_node_once(ray: ModuleType) -> None:
    @ray.remote
    def add(a: int, b: int = 1) -> int:
        return a + b

    @ray.remote
    class Counter:
        def __init__(self, start: int) -> None:
            self.count = start

        def inc(self, by: int = 1) -> int:
            self.count += by
            return self.count

        def get(self) -> int:
            return self.count

    assert ray.get(add.bind(add.bind(1, b=2), 3).execute()) == 6

    with InputNode() as given:
        by_position = add.bind(given[0], given["b"])
        by_attribute = add.bind(given.real)
        whole = add.bind(given, given)
    assert ray.get(by_position.execute(2, b=40)) == 42
    assert ray.get(by_attribute.execute(4)) == 5
    assert ray.get(whole.execute(4)) == 8

    counter = Counter.bind(10)
    first = counter.inc.bind(1)
    both = MultiOutputNode([first, counter.inc.bind(add.bind(first))])
    assert ray.get(both.execute()) == [11, 23]  # one actor, and `first` ran once
    assert ray.get(both.execute()) == [11, 23]  # each execution makes its own actor

    live = Counter.remote(5)
    assert ray.get(live.inc.bind(2).execute()) == 7
    assert ray.get(live.get.remote()) == 7
    assert ray.get(Counter.options(name="named").bind(0).get.bind().execute()) == 0


def test_misuse_of_graphs_is_told() -> None:
    import sundog

    @sundog.remote
    class A:
        def m(self) -> None: ...

    given = InputNode()
    node: Any = A.bind()
    assert type(node) is ClassNode
    with pytest.raises(ValueError, match="constructor"):
        A.bind(given)
    with pytest.raises(AttributeError, match=r"\.bind\(\)"):
        node.bind  # noqa: B018
    with pytest.raises(AttributeError, match="no method"):
        _ = node.nothing
    with pytest.raises(AttributeError, match="use"):
        node.m.remote()
    with pytest.raises(ValueError, match="no arguments"):
        InputNode(1)
    with pytest.raises(NotImplementedError, match="Compiled"):
        node.m.bind().experimental_compile()
