"""Paused tasks and breakpoints from outside, as the node tells of them."""

from __future__ import annotations

from typing import Any

from sundog.node.pauses import SessionPauses
from sundog.wire.control import PauseCounts, Paused, PauseNotice, Resumed, SetCaptures, SetTriggers
from sundog.wire.pauses import Pause, Trigger
from tests.node.fakes import FakeJob, FakeNode, FakeProcess

PAUSE = Pause("1", "ab", "f", 0, "/f.py", 3, "f", "breakpoint()", 0.0, 7, b"w".hex())


def process(kind: str, process_id: bytes) -> Any:
    return FakeProcess(process_id, kind=kind, pid=1)


def make() -> tuple[Any, Any, SessionPauses]:
    driver, worker = process("driver", b"d"), process("worker", b"w")
    node: Any = FakeNode()
    node.join(driver, FakeJob(b"d"))
    node.join(worker)
    return driver, worker, SessionPauses(node)


def test_everybody_hears_how_many_stand_and_the_driver_hears_where_once() -> None:
    driver, worker, pauses = make()
    pauses.paused(worker, Paused(PAUSE))
    pauses.paused(worker, Paused(PAUSE._replace(attached=99)))
    notices = [each.text for each in driver.sent if isinstance(each, PauseNotice)]
    assert len(notices) == 1 and notices[0].endswith("Attach with: sundog debug 1")
    assert worker.sent == [PauseCounts(1, 0), PauseCounts(1, 1)]
    assert pauses.of_worker(b"w".hex()) == (1, 0)
    pauses.resumed(worker, Resumed("1"))
    assert worker.sent[-1] == PauseCounts(0, 0) and not pauses.rows


def test_the_pauses_of_a_worker_that_dies_are_over() -> None:
    driver, worker, pauses = make()
    pauses.paused(worker, Paused(PAUSE))
    pauses.process_died(worker)
    assert not pauses.rows and driver.sent[-1] == PauseCounts(0, 0)


def test_triggers_and_captures_are_numbered_told_to_workers_and_removed() -> None:
    driver, worker, pauses = make()
    assert [pauses.add(Trigger(0, "f.py", line)) for line in (1, 2)] == [1, 2]
    assert worker.sent[-2] == SetTriggers((Trigger(1, "f.py", 1), Trigger(2, "f.py", 2)))
    assert pauses.clear([2, 5]) == [2] and pauses.clear([]) == [1] and pauses.clear([]) == []
    assert pauses.capture(["g", "f"], wanted=True) == ["f", "g"]
    assert worker.sent[-1] == SetCaptures(("f", "g"))
    assert pauses.capture(["f"], wanted=False) == ["g"] and pauses.capture([], wanted=False) == []
    assert driver.sent == []
