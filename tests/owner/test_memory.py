"""Tasks whose worker was ended for memory: tried again, or failed with an error that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from sundog import notices
from sundog.config import Config
from sundog.exceptions import OutOfMemoryError
from sundog.owner.lanes import LeasedLane
from sundog.owner.memory import MemoryLosses, error_of
from sundog.owner.rows import Fn, Task
from sundog.state.memory import COUNTED, FREE, NEVER
from sundog.wire.cause import MEMORY, Cause
from sundog.wire.control import Notice, RunningTold, TellRunning
from tests.owner.fakes import FakeReplies, make_owner


class Replies(FakeReplies):
    """What became of tasks: failed, or tried again after some time."""

    def __init__(self) -> None:
        super().__init__()
        self.again: list[float] = []

    def begin_attempt(self, task: Task) -> None:
        task.attempt += 1

    def requeue_later(self, _task: Task, wait_s: float) -> None:
        self.again.append(wait_s)


class FakeDispatch:
    """Lanes to workers."""

    def __init__(self, **lanes: LeasedLane) -> None:
        self.lanes = {name.encode(): lane for name, lane in lanes.items()}


def _task(retries: int = 3) -> Task:
    fn = Fn(1, "grow")
    fn.max_retries = retries
    return Task(b"t" * 16, fn, None, 0.0)


def _lane(*tasks: Task) -> LeasedLane:
    lane = LeasedLane(b"w" * 8, 812, None, None, lambda *_: None)  # type: ignore[arg-type]
    lane.inflight = {task.id: task for task in tasks}
    return lane


def _losses(config: Config | None = None) -> tuple[MemoryLosses, Replies]:
    owner, replies = make_owner(config), Replies()
    return MemoryLosses(owner, owner.control, replies), replies  # type: ignore[arg-type]


def _cause(retry: str, **facts: object) -> Cause:
    return Cause(
        reason="memory ran short", kind=MEMORY, signal=9, facts={"retry": retry, "node_id": "n1", **facts}
    )


def test_a_task_ended_for_others_is_tried_again_without_using_its_retries() -> None:
    losses, replies = _losses(Config(task_oom_retries=2))
    task = _task(retries=1)
    for _ in range(2):
        losses.lost(task, _lane(), _cause(FREE))
    assert (task.retries, task.attempt, len(replies.again), replies.failed) == (1, 2, 2, [])
    losses.lost(task, _lane(), _cause(FREE))
    assert len(replies.failed) == 1 and len(replies.again) == 2


def test_such_a_task_may_be_tried_again_without_end() -> None:
    losses, replies = _losses(Config(task_oom_retries=-1))
    task = _task()
    for _ in range(30):
        losses.lost(task, _lane(), _cause(FREE))
    assert replies.failed == [] and max(replies.again) <= 60.0


def test_a_task_with_nobody_else_to_blame_uses_up_its_retries() -> None:
    losses, replies = _losses()
    task = _task(retries=1)
    losses.lost(task, _lane(), _cause(COUNTED))
    assert (task.retries, replies.failed) == (0, [])
    losses.lost(task, _lane(), _cause(COUNTED))
    assert isinstance(replies.failed[0][1], OutOfMemoryError)


@pytest.mark.parametrize(("retries", "retry"), [(0, FREE), (0, COUNTED), (3, NEVER)])
def test_a_task_without_retries_or_too_large_alone_fails_at_once(retries: int, retry: str) -> None:
    losses, replies = _losses()
    losses.lost(_task(retries), _lane(), _cause(retry))
    assert len(replies.failed) == 1 and replies.again == []


@pytest.mark.parametrize(
    ("retries", "facts", "advice"),
    [
        (3, {"cap_bytes": 100}, "Give the task a larger memory=, or make it use less memory."),
        (0, {}, "The task has max_retries=0."),
        (3, {}, "With memory= or a larger num_cpus= fewer tasks run at once."),
    ],
)
def test_the_error_names_task_worker_and_node_and_what_to_do(
    retries: int, facts: dict[str, object], advice: str
) -> None:
    error: Any = error_of(_task(retries), _lane(), _cause(NEVER, **facts))
    text = str(error)
    assert text.startswith(
        f"grow() (task {(b't' * 16).hex()}, attempt 1) on worker {(b'w' * 8).hex()} (pid 812)"
    )
    assert "of node n1 did not finish: it was ended because memory ran short." in text and advice in text
    assert f"sundog why {(b't' * 16).hex()}" in text
    assert (error.pid, error.signal, error.function_name, error.attempt) == (812, 9, "grow", 1)


def test_the_node_is_told_the_oldest_task_of_each_busy_worker() -> None:
    losses, _ = _losses()
    first, second = _task(), Task(b"u" * 16, Fn(1, "other"), None, 0.0)
    losses.dispatch = FakeDispatch(busy=_lane(first, second), idle=_lane())  # type: ignore[assignment]
    losses.running(TellRunning(4))
    assert losses.control.sent == [RunningTold(4, [(b"busy", first.id, "grow", 3)])]  # type: ignore[attr-defined]


def test_what_the_node_says_to_the_user_is_shown_as_a_warning() -> None:
    losses, _ = _losses()
    losses.notice(Notice("2 workers ended for lack of memory"))
    assert losses.basics.deliveries.brought == [(notices.warn, "2 workers ended for lack of memory")]  # type: ignore[attr-defined]
