"""What is recorded of attempts that ended with their process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sundog import events
from sundog.events import Ring, read_ring
from sundog.owner.lost_attempts import record_lost
from sundog.owner.rows import DONE, Fn, Task
from sundog.wire.lanes import EXTRA_NAME
from tests.owner.fakes import OTHER, FakeControl, make_owner


class Control(FakeControl):
    """Rings in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def ring_path(self, process: bytes) -> str:
        return str(self.folder / f"{process.hex()}.ring")


def _task(name: str, **facts: Any) -> Task:
    task = Task(name.encode() * 16, Fn(1, name), None, 10.0)
    for key, value in facts.items():
        setattr(task, key, value)
    return task


def test_an_attempt_that_had_begun_is_recorded_from_its_beginning_and_others_from_their_end(
    tmp_path: Path,
) -> None:
    owner, control = make_owner(), Control(tmp_path)
    owner.ring = Ring(str(tmp_path / "00.ring"), 64, "driver")
    dead = Ring(control.ring_path(OTHER), 64, "worker")
    begun, waiting = _task("a", attempt=1), _task("b", extra={EXTRA_NAME: "shown"})
    dead.started(begun.id, 20.0, dead.name("a"))
    dead.sample(begun.id, 30.0, 5000, "f.py:3")
    dead.close()
    record_lost(owner, control, [begun, waiting, _task("c", state=DONE)], OTHER)  # type: ignore[arg-type]
    owner.ring.close()
    found = read_ring(str(tmp_path / "00.ring"))
    assert found is not None
    first, second = list(found[1])
    assert {first.kind, second.kind} == {events.LOST}
    assert (first.task_id, first.submit_s, first.start_s, first.attempt) == (begun.id, 10.0, 20.0, 1)
    assert first.own_bytes == 5000 and second.own_bytes == 0
    assert (second.task_id, second.start_s, second.end_s) == (waiting.id, owner.wall_s(), owner.wall_s())
    assert (first.name, second.name) == ("a", "shown")


def test_a_process_that_left_no_recorder_still_leaves_its_attempts(tmp_path: Path) -> None:
    owner = make_owner()
    owner.ring = Ring(str(tmp_path / "00.ring"), 64, "driver")
    record_lost(owner, Control(tmp_path), [_task("a")], OTHER)  # type: ignore[arg-type]
    owner.ring.close()
    found = read_ring(str(tmp_path / "00.ring"))
    assert found is not None and [each.start_s for each in found[1]] == [owner.wall_s()]
