"""Rows: made by position or name, sent as tuples, read back, and handed to the handler of their kind."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sundog.wire.row import Malformed, Row, Table, on, read


class LeaseWanted(Row):
    """A row with a default."""

    key: int
    functions: tuple[str, ...] = ()


class Opened(Row, fds=1):
    """A row with a descriptor."""

    process: bytes


class Empty(Row):
    """A row without fields."""


def test_fields_are_given_by_position_by_name_or_by_default() -> None:
    assert LeaseWanted(1, ("f",)) == LeaseWanted(key=1, functions=("f",)) == ("lease_wanted", 1, ("f",))
    assert LeaseWanted(2).functions == ()
    assert Empty() == ("empty",)


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, (), 3), {}), ((1,), {"key": 2}), ((1,), {"other": 2})]
)
def test_a_row_with_other_fields_than_its_own_is_refused(values: Any, named: Any) -> None:
    with pytest.raises(TypeError, match="key, functions"):
        LeaseWanted(*values, **named)


def test_a_row_travels_as_a_plain_tuple_and_comes_back_as_itself() -> None:
    sent = pickle.loads(pickle.dumps(tuple(LeaseWanted(1)), 5))
    assert type(sent) is tuple
    back = read(LeaseWanted, sent)
    assert type(back) is LeaseWanted and back.key == 1
    assert repr(back) == "LeaseWanted(key=1, functions=())"


def test_a_message_of_another_version_is_refused() -> None:
    with pytest.raises(Malformed, match="'lease_wanted' has 3 fields, not 2"):
        read(LeaseWanted, ("lease_wanted", 1, 2, 3))


def test_a_table_calls_the_handler_with_sender_row_and_descriptor() -> None:
    heard: list[Any] = []

    def opened(sender: str, message: Opened, fd: int) -> None:
        heard.append((sender, message.process, fd))

    table = Table(on(Opened, opened), on(Empty, lambda sender, _message: heard.append(sender)))
    assert table.handle(("opened", b"p"), "worker", fds=[7])
    assert table.handle(("empty",), "driver")
    assert not table.handle(("lease_wanted", 1, ()), "driver")
    assert heard == [("worker", b"p", 7), "driver"]
    assert Opened in table and LeaseWanted not in table


def test_two_tables_are_joined_unless_both_handle_a_message() -> None:
    one, other = Table(on(Empty, lambda _message: None)), Table(on(LeaseWanted, lambda _message: None))
    joined = one.joined(other)
    assert Empty in joined and LeaseWanted in joined
    with pytest.raises(ValueError, match="two entries for the same message"):
        joined.joined(one)


def test_a_message_whose_descriptor_was_lost_on_the_way_is_handled_apart() -> None:
    table = Table(on(Opened, lambda _message, _fd: None))
    with pytest.raises(Malformed, match="has lost its descriptor"):
        table.handle(("opened", b"p"))
    lost: list[object] = []
    table.bereft = lambda sender, message: lost.append((sender, message))
    for each in (table, table.joined(Table()), Table().joined(table)):
        assert each.handle(("opened", b"p"), "worker")
    assert lost == [("worker", Opened(b"p"))] * 3
    assert table.handle(("opened", b"p"), fds=[7])
