"""`timeout_s` and `queue_timeout_s` in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.exceptions import TaskTimeoutError
from sundog.owner.rows import DONE
from sundog.wire import lanes as wire
from sundog.wire.peers import Expire
from sundog.worker import deadlines as module
from tests.owner.fakes import OTHER
from tests.worker.whole import WholeWorker, error_in, whole_worker

TASK = b"\1" * 16


class FakeAgenda:
    """Bounds that ring when the test says so."""

    def __init__(self) -> None:
        self.bounds: list[tuple[float, Callable[[], None]]] = []

    def bound(self, after_s: float, _row: object, call: Callable[..., None], *args: Any) -> None:
        self.bounds.append((after_s, lambda: call(*args)))

    def close(self) -> None:
        pass


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeWorker]:
    monkeypatch.setattr(module.Deadlines, "_listen", lambda self: None)  # takes a signal of the process
    with whole_worker(tmp_path) as made:
        made.owner.agenda.close()
        made.owner.agenda = FakeAgenda()  # type: ignore[assignment]
        yield made


def _item(worker: WholeWorker, timeout_s: float, what: object = 1) -> wire.Item:
    return worker.item(what, extra={wire.EXTRA_TIMEOUT: timeout_s})


def _expire(worker: WholeWorker) -> None:
    message = Expire(TASK, "f", 0.5, 0)
    worker.executor.deadlines.expire(OTHER, message, list(worker.serving.lanes.values()))


def test_the_owner_hears_when_a_bounded_task_begins(worker: WholeWorker) -> None:
    deadlines = worker.executor.deadlines
    assert deadlines.begin(worker.lane, _item(worker, 2.0))
    assert worker.replies() == [(TASK, wire.R_STARTED, None, 0.0)]
    assert [after_s for after_s, _ in worker.owner.agenda.bounds] == [2.0]  # type: ignore[attr-defined]
    run = deadlines.running[TASK]
    deadlines.end(TASK)
    assert run.state == DONE and deadlines.running == {}


def test_a_task_past_its_time_is_ended_with_its_stack(worker: WholeWorker) -> None:
    deadlines = worker.executor.deadlines
    ended: list[bytes] = []

    def end_call(task_id: bytes) -> bool:
        ended.append(task_id)
        return True

    deadlines.end_call = end_call
    worker.knows(lambda: 1)
    deadlines.begin(worker.lane, _item(worker, 2.0))
    assert deadlines.error_of(TASK) is None
    worker.owner.agenda.bounds[0][1]()  # type: ignore[attr-defined]
    assert [reply[1] for reply in worker.replies()] == [wire.R_STARTED, wire.R_STACK] and ended == [TASK]
    error = deadlines.error_of(TASK)
    assert isinstance(error, TaskTimeoutError)
    assert "It was interrupted." in str(error) and "2" in str(error)
    assert "test_a_task_past_its_time_is_ended_with_its_stack" in str(error)


def test_a_call_in_a_thread_is_answered_and_goes_on(worker: WholeWorker) -> None:
    deadlines = worker.executor.deadlines
    deadlines.end_call = lambda _task: False
    deadlines.begin(worker.lane, _item(worker, 2.0, "step"))
    worker.owner.agenda.bounds[0][1]()  # type: ignore[attr-defined]
    *_, failed = worker.replies()
    assert "A call in a thread cannot be interrupted, so it still runs." in str(error_in(failed))


def test_a_task_that_waited_too_long_is_failed_and_never_begins(worker: WholeWorker) -> None:
    deadlines = worker.executor.deadlines
    deadlines.busy_with = lambda: "File train.py, line 7"
    _expire(worker)
    [failed] = worker.replies()
    text = str(error_in(failed))
    assert "its worker has other work to do first." in text and "train.py, line 7" in text
    assert not deadlines.begin(worker.lane, _item(worker, 2.0))
    assert deadlines.begin(worker.lane, _item(worker, 2.0))  # the next attempt of it


def test_a_task_that_has_begun_is_not_expired_and_its_owner_is_told_so(worker: WholeWorker) -> None:
    deadlines = worker.executor.deadlines
    deadlines.begin(worker.lane, _item(worker, 0.0))  # only its time in the queue is bounded
    assert worker.replies() == []
    _expire(worker)
    assert worker.replies() == [(TASK, wire.R_STARTED, None, 0.0)]


def test_tasks_that_never_come_are_forgotten(worker: WholeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EXPIRED_MAX", 2)
    for number in range(5):
        worker.executor.deadlines.expire(b"nobody", Expire(bytes([number]) * 16, "f", 0.5, 0), [])
    assert list(worker.executor.deadlines._expired) == [bytes([3]) * 16, bytes([4]) * 16]
