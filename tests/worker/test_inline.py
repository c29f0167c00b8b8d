"""Which tasks may run in the process of the task that waits for them, and how deep."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.owner.rows import Code, Fn, Task
from sundog.worker.inline import Inline


def _task(**changes: Any) -> Task:
    fn = Fn(1, "f")
    fn.code = Code(b"h", b"code")
    task = Task(b"t" * 16, fn, b"", 0.0)
    for name, value in changes.items():
        setattr(fn if name in Fn.__slots__ and not hasattr(task, name) else task, name, value)
    return task


def test_a_task_with_one_result_and_plain_arguments_may() -> None:
    assert Inline._is_plain(_task())
    assert Inline._is_plain(_task(args=None))


@pytest.mark.parametrize(
    "change",
    [
        {"one": False},
        {"max_calls": 1},
        {"retry_exceptions": True},
        {"extra": {"n": 1}},
        {"holds": [b"x"]},
        {"deps": [b"x"]},
        {"attempt": 1},
        {"cancelled": True},
        {"args": ("obj", b"", b"", None)},
        {"args": b"..rebuild.."},
        {"actor": object()},
    ],
)
def test_one_with_anything_else_may_not(change: dict[str, Any]) -> None:
    assert not Inline._is_plain(_task(**change))


def test_half_of_the_stack_must_be_left() -> None:
    def deep(left: int) -> bool:
        return deep(left - 1) if left else Inline._has_stack()

    assert Inline._has_stack()
    assert not deep(600)
