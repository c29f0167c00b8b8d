"""What a handle knows of its actor: from the class and the options, small when pickled."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import sundog
from sundog.actor import _members
from sundog.handle_data import HandleData
from sundog.options import parse_actor_options


class Base:
    def inherited(self) -> int:
        return 1


class Counter(Base):
    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, amount: int, note: str = "") -> int:
        return amount

    @sundog.method(num_returns=2, concurrency_group="io")
    def pair(self) -> tuple[int, int]:
        return 1, 2

    def each(self) -> Iterator[int]:
        yield 1

    @staticmethod
    def helper(one: int) -> int:
        return one


def test_members_are_the_methods_with_their_options_and_what_they_take() -> None:
    members = _members(Counter)

    assert set(members.methods) == {"add", "pair", "each", "helper", "inherited"}
    assert members.methods["pair"].num_returns == 2
    assert members.generators == {"each"}
    assert (members.signatures["add"].low, members.signatures["add"].high) == (1, 2)
    assert members.signatures["helper"].low == 1  # a static method has no self to leave out


def test_the_row_takes_from_the_options_what_callers_need() -> None:
    options = parse_actor_options(
        {"concurrency_groups": {"io": 2, "a": 1}, "max_task_retries": 3, "max_pending_calls": 7}
    )
    data = HandleData.of(_members(Counter), options)

    assert (data.groups, data.max_task_retries, data.max_pending_calls) == (("a", "io"), 3, 7)
    assert not data.out_of_order and data.task_events


def test_the_row_survives_pickling() -> None:
    data = HandleData.of(_members(Counter), parse_actor_options({}))
    again = pickle.loads(pickle.dumps(data))

    assert again.members.class_path == "Counter"
    assert again.members.methods == data.members.methods
    assert again.members.signatures["add"].parameters == data.members.signatures["add"].parameters
