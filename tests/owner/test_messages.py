"""What every owner hears: each message reaches the part that it is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog import notices
from sundog.owner.core import Owner
from sundog.owner.rows import Fn, Task
from sundog.wire import control, peers
from sundog.wire.cause import SIGNAL, Cause
from tests.owner.fakes import OTHER
from tests.owner.whole import FakeNode, whole_owner


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Owner, FakeNode]]:
    with whole_owner(tmp_path) as made:
        yield made


def test_several_nodes_are_looked_for_ever_after(both: tuple[Owner, FakeNode]) -> None:
    owner, _ = both
    for nodes, several in ((1, False), (2, True), (1, True)):
        assert owner.control.table.handle(control.NodesChanged(nodes))
        assert owner.segments.several is several


def test_the_death_of_a_process_is_known_to_all_parts(both: tuple[Owner, FakeNode]) -> None:
    owner, _ = both
    cause = Cause(kind=SIGNAL, signal=11)
    assert owner.control.table.handle(control.Died(OTHER, cause))
    assert owner.peers.dead[OTHER] == cause


def test_unfinished_tasks_and_objects_are_described_to_the_node(both: tuple[Owner, FakeNode]) -> None:
    owner, node = both
    task = Task(owner.ids.task(), Fn(1, "f"), None, 0.0)
    owner.table[task.id] = task
    assert owner.control.table.handle(control.Describe(4, "tasks"))
    [told] = node.heard()
    assert told[:2] == ("described", 4) and told[2][0]["name"] == "f"
    brought: list[tuple[object, ...]] = []
    owner.deliveries.bring = lambda *call: brought.append(call)  # type: ignore[method-assign]
    assert owner.control.table.handle(control.Describe(5, "objects"))
    assert node.heard() == []  # not under the lock: it may end objects of the user's
    [(call, *arguments)] = brought
    call(*arguments)  # type: ignore[operator]
    [told] = node.heard()
    assert told[1] == 5 and told[2][0]["task_status"] == "PENDING_NODE_ASSIGNMENT"
    owner.table.clear()


def test_a_notice_of_a_pause_is_a_note_and_any_other_a_warning(both: tuple[Owner, FakeNode]) -> None:
    owner, _ = both
    brought: list[tuple[object, ...]] = []
    owner.deliveries.bring = lambda *call: brought.append(call)  # type: ignore[method-assign]
    owner.control.table.handle(control.PauseNotice("f() stands at f.py:3"))
    owner.control.table.handle(control.Notice("memory ran short"))
    assert brought == [(notices.note, "f() stands at f.py:3"), (notices.warn, "memory ran short")]


def test_a_message_of_another_version_is_refused_and_an_unknown_one_is_not_handled(
    both: tuple[Owner, FakeNode],
) -> None:
    owner, _ = both
    with pytest.raises(ValueError, match=r"'notice' has 2 fields, not 1"):
        owner.control.table.handle(("notice", "a", "b"))
    assert not owner.control.table.handle(("of a later version", 1))
    assert not owner.control.table.handle(control.LogLines([]))  # type: ignore[arg-type]  # for drivers alone


def test_other_processes_are_heard_too(both: tuple[Owner, FakeNode]) -> None:
    owner, _ = both
    for row in (peers.AskValue, peers.TellValue, peers.Borrow, peers.Unborrow, peers.FreeObjects):
        assert row in owner.peers.table
    assert peers.CancelTask not in owner.peers.table  # of workers alone
