"""A cancel that meets its task between the socket and its first line: neither of the two threads may miss the other."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from sundog.worker.serving import Serving

TASK = b"t" * 16


class _Executor:
    """An executor of tasks, not of an actor."""

    actor_id = None

    def __init__(self, early: dict[bytes, None]) -> None:
        self.cancelled_early = early


class Bare(Serving):
    """As much of a serving as cancelling needs."""

    def __init__(self, early: dict[bytes, None]) -> None:
        self.todo = deque()
        self.current = None
        self.executor: Any = _Executor(early)
        self.told: list[str] = []

    def _interrupt_current(self, task_id: bytes, recursive: bool) -> None:
        self.told.append("interrupted")

    def _reply_cancelled(self, lane: Any, task_id: bytes) -> None:
        self.told.append("answered")


def test_a_cancel_that_comes_before_the_task_is_current_is_found_when_it_is() -> None:
    serving = Bare({})
    serving.cancel(TASK, False)
    serving.current = TASK
    lane: Any = None
    assert serving._overtaken(lane, TASK)
    assert not serving._overtaken(lane, b"o" * 16)
    assert serving.told == ["answered"] and not serving.executor.cancelled_early


@pytest.mark.parametrize("seen", [False, True])
def test_a_task_that_begins_while_its_cancel_is_noted_ends_once(seen: bool) -> None:
    class Early(dict[bytes, None]):
        def __setitem__(self, task_id: bytes, value: None) -> None:
            super().__setitem__(task_id, value)
            serving.current = TASK  # in the main thread
            if seen:
                lane: Any = None
                assert serving._overtaken(lane, TASK)

    serving = Bare(Early())
    serving.cancel(TASK, False)
    assert serving.told == (["answered"] if seen else ["interrupted"])
    assert not serving.executor.cancelled_early
