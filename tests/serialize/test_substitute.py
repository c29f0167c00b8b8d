"""Objects of one kind are replaced wherever they are in a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sundog.serialize.substitute import substitute


class Marker:
    def __init__(self, name: str) -> None:
        self.name = name


@dataclass
class Holder:
    inside: Any


def replaced(value: Any) -> Any:
    return substitute(value, (Marker,), lambda each: f"<{each.name}>")


def test_it_is_replaced_in_containers_and_below_them() -> None:
    value = [Marker("a"), {"k": (1, Marker("b"))}]

    assert replaced(value) == ["<a>", {"k": (1, "<b>")}]


def test_it_is_replaced_in_attributes_of_other_objects() -> None:
    assert replaced(Holder([Marker("x")])).inside == ["<x>"]


def test_a_value_without_it_comes_back_as_it_is() -> None:
    value = {"k": [1, 2, Holder("nothing")]}

    assert replaced(value) is value


def test_an_object_that_cannot_be_pickled_is_left_alone() -> None:
    generator = (each for each in "ab")

    assert replaced([generator])[0] is generator
