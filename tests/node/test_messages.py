"""The node's tables: every message that a process or a zygote may send has a handler."""

from __future__ import annotations

from sundog.wire import control, zygote
from sundog.wire.row import Row
from tests.node.whole import WholeNode


def _rows(module: object, base: type[Row]) -> list[type[Row]]:
    found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, base)]
    return [each for each in found if each is not base and each.__module__ == module.__name__]  # type: ignore[attr-defined]


def test_all_that_is_sent_to_a_node_is_handled(world: WholeNode) -> None:
    missing = [row.kind for row in _rows(control, control.ToNode) if row not in world.node.table]
    assert missing == [] and len(_rows(control, control.ToNode)) > 30


def test_all_that_a_zygote_says_is_handled_and_nothing_else(world: WholeNode) -> None:
    table = world.node.workers.table
    rows = _rows(zygote, zygote.FromZygote)
    assert [row.kind for row in rows if row not in table] == [] and len(rows) == 4
    assert control.Hello not in table


def test_what_the_node_itself_sends_is_no_message_to_it(world: WholeNode) -> None:
    assert [row.kind for row in _rows(control, control.FromNode) if row in world.node.table] == []
