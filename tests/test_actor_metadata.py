"""What programs read of an actor class: `A.__ray_metadata__`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sundog


@sundog.remote(num_cpus=2, max_restarts=3, resources={"custom": 1}, concurrency_groups={"io": 1})
class Model:
    """An actor class; nothing is started."""

    def plain(self, a: int, b: int = 2) -> int:
        return a + b

    @sundog.method(num_returns=2, max_task_retries=5, concurrency_group="io")
    def pair(self) -> tuple[int, int]:
        return 1, 2

    def items(self) -> Iterator[int]:
        yield 1


def _metadata() -> Any:
    made: Any = Model
    return made.__ray_metadata__


def test_the_options_of_the_class_are_those_it_was_decorated_with() -> None:
    found = _metadata()
    assert (found.num_cpus, found.max_restarts, found.resources) == (2, 3, {"custom": 1})
    assert found.class_name == "Model" and found.modified_class.__name__ == "Model"
    assert found.is_cross_language is False


def test_the_options_of_each_method_are_by_its_name() -> None:
    methods = _metadata().method_meta
    assert {"plain", "pair", "items"} <= methods.methods.keys()
    assert (methods.num_returns["pair"], methods.max_task_retries["pair"]) == (2, 5)
    assert methods.concurrency_group_for_methods == {"pair": "io"}
    assert methods.method_is_generator["items"] and not methods.method_is_generator["plain"]
    assert [each.name for each in methods.signatures["plain"]][-2:] == ["a", "b"]


def test_the_id_of_a_class_is_the_same_each_time_and_another_for_another_class() -> None:
    @sundog.remote
    class Other:
        """Another actor class."""

    other: Any = Other
    assert _metadata().class_id == _metadata().class_id != other.__ray_metadata__.class_id
