"""Worker starts that are held back while the node is short of descriptors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from sundog.node import descriptors
from sundog.node.descriptors import Descriptors
from sundog.state.instructions import StartWorker


class FakeNode:
    """What the holding back needs of a node: a loop whose timers the test fires, a driver, parked lanes."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.loop = SimpleNamespace(after=lambda seconds, call: self.timers.append(call))
        self.sent: list[Any] = []
        self.parked = 0
        self.keeper = SimpleNamespace(parked=lambda: self.parked)
        self.jobs = {b"job": SimpleNamespace(driver=b"driver")}
        self.processes = {b"driver": SimpleNamespace(line=SimpleNamespace(send=self.sent.append))}
        self.started: list[StartWorker] = []
        self.workers = SimpleNamespace(start_now=self.started.append)
        self.used = 0

    def now(self) -> float:
        return 0.0

    def log(self, text: str) -> None: ...

    def fire(self) -> None:
        timers, self.timers = self.timers, []
        for call in timers:
            call()


def make(monkeypatch: Any, used: int) -> tuple[FakeNode, Any]:
    node = FakeNode()
    node.used = used
    monkeypatch.setattr(descriptors, "read", lambda pid: (node.used, 100))
    held: Any = Descriptors(node)  # type: ignore[arg-type]
    held._gauge._clock = iter(range(1000)).__next__
    return node, held


def test_with_room_nothing_is_held_back(monkeypatch: Any) -> None:
    node, held = make(monkeypatch, used=10)
    assert not held.holds_back(StartWorker(b"n", "e"))
    assert node.sent == [] and node.timers == []


def test_without_room_starts_wait_in_order_and_the_driver_is_told_once(monkeypatch: Any) -> None:
    node, held = make(monkeypatch, used=95)
    starts = [StartWorker(b"n", str(number)) for number in range(3)]
    assert all(held.holds_back(each) for each in starts)
    node.fire()
    assert node.started == []
    assert [message[:2] for message in node.sent] == [("warn_once", "descriptors")]
    node.used = 10
    node.fire()
    assert node.started == starts and node.timers == []
    assert not held.holds_back(starts[0])


def test_lanes_that_wait_for_a_worker_do_not_keep_it_from_starting(monkeypatch: Any) -> None:
    node, held = make(monkeypatch, used=95)
    node.parked = 40
    assert not held.holds_back(StartWorker(b"n", "e"))
