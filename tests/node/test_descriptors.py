"""Worker starts that are held back while the node is short of descriptors."""

from __future__ import annotations

from typing import Any

from sundog.node import descriptors
from sundog.node.descriptors import Descriptors
from sundog.state.instructions import StartWorker
from tests.node.fakes import FakeJob, FakeNode, FakeProcess


class StartingWorkers:
    """Keeps the starts that were not held back."""

    def __init__(self) -> None:
        self.started: list[StartWorker] = []

    def start_now(self, start: StartWorker) -> None:
        self.started.append(start)


class ParkingKeeper:
    """As many lanes wait for a worker as the test says."""

    lanes = 0

    def parked(self) -> int:
        return self.lanes


class ShortNode(FakeNode):
    """A node with a driver, parked lanes, and `used` descriptors of 100."""

    def __init__(self, used: int) -> None:
        super().__init__()
        self.used, self.keeper, self.starts = used, ParkingKeeper(), StartingWorkers()
        self.workers = self.starts  # type: ignore[assignment]
        self.driver = self.join(FakeProcess(b"driver"), FakeJob(b"driver"))


def make(monkeypatch: Any, used: int) -> tuple[ShortNode, Any]:
    node = ShortNode(used)
    monkeypatch.setattr(descriptors, "read", lambda pid: (node.used, 100))
    held: Any = Descriptors(node)  # type: ignore[arg-type]
    held._gauge._clock = iter(range(1000)).__next__
    return node, held


def test_with_room_nothing_is_held_back(monkeypatch: Any) -> None:
    node, held = make(monkeypatch, used=10)
    assert not held.holds_back(StartWorker(b"n", "e"))
    assert node.driver.sent == [] and node.loop.timers == []


def test_without_room_starts_wait_in_order_and_the_driver_is_told_once(monkeypatch: Any) -> None:
    node, held = make(monkeypatch, used=95)
    starts = [StartWorker(b"n", str(number)) for number in range(3)]
    assert all(held.holds_back(each) for each in starts)
    node.loop.fire()
    assert node.starts.started == []
    assert [message[:2] for message in node.driver.sent] == [("warn_once", "descriptors")]
    node.used = 10
    node.loop.fire()
    assert node.starts.started == starts and node.loop.timers == []
    assert not held.holds_back(starts[0])


def test_lanes_that_wait_for_a_worker_do_not_keep_it_from_starting(monkeypatch: Any) -> None:
    node, held = make(monkeypatch, used=95)
    node.keeper.lanes = 40
    assert not held.holds_back(StartWorker(b"n", "e"))
