"""Cancelling what a task has submitted."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sundog.owner.cancels import Cancels
from sundog.owner.records import SENT, Fn, Task

PARENT = b"p" * 16


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_child_is_interrupted_once_though_its_parent_was_cancelled_before_it_ended(
    concurrent: bool,
) -> None:
    told: list[Any] = []
    owner: Any = SimpleNamespace(
        lock=threading.RLock(),
        table={},
        concurrent=concurrent,
        actors=SimpleNamespace(tell=lambda _lane, message: told.append(message)),
    )
    child = Task(b"c" * 16, Fn(1, "child"), None, 5.0)
    child.state, child.parent, child.lane = SENT, PARENT, SimpleNamespace()
    owner.table[child.id] = child
    cancels = Cancels(owner)
    cancels.childless.add(PARENT)

    cancels.cancel_late(PARENT, 1.0)  # by the thread that ran the parent, which was interrupted at once
    if concurrent:
        cancels.cancel_children_of(PARENT)
    else:
        cancels.cancel_children(1.0)

    assert told == [("cancel", child.id, True)]
