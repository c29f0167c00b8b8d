"""Which task or call a frame of a worker runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import cloudpickle
import pytest

from sundog.owner import context
from sundog.wire import lanes as wire
from sundog.wire.looks import RunningCall
from sundog.worker import actor_life
from sundog.worker.running import call_of
from tests.owner.fakes import OTHER
from tests.worker.whole import WholeWorker, whole_worker

seen: list[RunningCall] = []


def look() -> None:
    """Notes the calls that the frames of this thread run."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        found = call_of(frame)
        if found is not None:
            seen.append(found)
        frame = frame.f_back


class Watched:
    """An actor whose constructor and method look."""

    def __init__(self) -> None:
        look()

    def look(self) -> None:
        look()


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeWorker]:
    seen.clear()
    monkeypatch.setattr(actor_life, "apply_lease", lambda _setup: None)  # it would change this process
    with whole_worker(tmp_path) as made:
        yield made


def test_a_task_is_known_by_its_id_its_name_and_its_start(worker: WholeWorker) -> None:
    worker.run(worker.knows(look))
    [call] = seen
    assert call.task_id == (b"\1" * 16).hex() and call.name == "look"
    assert call.start_s > 0 and call.attempt == 0


def test_a_call_has_the_name_of_its_class(worker: WholeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context.facts, "actor_class", "Watched")
    worker.executor.actor = object.__new__(Watched)
    worker.run("look")
    assert [call.name for call in seen] == ["Watched.look"]


def test_an_attempt_has_its_number(worker: WholeWorker) -> None:
    worker.run(worker.knows(look), extra={wire.EXTRA_ATTEMPT: 2})
    assert [(call.name, call.attempt) for call in seen] == [("look", 2)]


def test_a_constructor_has_the_actor_s_id_and_its_life(worker: WholeWorker) -> None:
    spec: Any = {
        "setup": {},
        "name": "",
        "namespace": "ns",
        "class_name": "Watched",
        "handle": b"",
        "unread_max": 0,
        "owner": OTHER,
        "blob": cloudpickle.dumps(Watched),
        "args": None,
        "extra": None,
    }
    life = actor_life.ActorLife(worker.owner, worker.executor, worker.serving)
    life._construct(b"a" * 16, 3, spec)
    assert [(call.task_id, call.name, call.attempt) for call in seen] == [
        ((b"a" * 16).hex(), "Watched.__init__", 3)
    ]


def test_a_frame_that_runs_no_call_is_none() -> None:
    assert call_of(sys._getframe()) is None
