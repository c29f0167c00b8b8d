"""Events counted by function and class: each once, whichever way its slots come."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import event_names, events
from sundog.observe.ledger import Ledger

TASK_ID = bytes(range(16))
PROCESS = "ab" * 8


@pytest.fixture
def ring(tmp_path: Path) -> events.Ring:
    return events.Ring(str(tmp_path / f"{PROCESS}.ring"), 256, "worker")


def task(ring: events.Ring, name: str = "f", seconds: float = 1.0, count: int = 1) -> None:
    for _ in range(count):
        ring.write(events.TASK, TASK_ID, ring.name(name), 0.0, 10.0, 10.0 + seconds, 0, 0, seconds / 2, 1e6)


def count(ledger: Ledger, ring: events.Ring, after: int = 0, process: str = PROCESS) -> None:
    slots = events.read_slots(ring.path, after)
    assert slots is not None
    names = event_names.read_names(ring.path)
    ledger.count(process, lambda number: names[number], slots)
    ring.close()


def test_a_flood_of_one_name_is_summed_up(ring: events.Ring) -> None:
    task(ring, count=200)
    ledger = Ledger()
    count(ledger, ring)
    figures = ledger.totals.functions()["f"]
    assert figures["count"] == 200
    assert figures["duration_s"]["mean"] == pytest.approx(1.0)
    assert figures["cpu_s"]["max"] == pytest.approx(0.5)
    assert figures["peak_memory"]["max"] == 1e6


def test_attempts_after_the_first_are_counted_apart(ring: events.Ring) -> None:
    for attempt, flags in ((0, events.FAILED), (1, events.FAILED), (2, 0)):
        ring.write(events.TASK, TASK_ID, ring.name("f"), 0.0, 10.0, 11.0, flags, attempt, 0.5, 1e6)
    ledger, kept = Ledger(), Ledger()
    count(ledger, ring)
    kept.load(ledger.dump())
    for each in (ledger, kept):
        figures = each.totals.functions()["f"]
        assert (figures["count"], figures["retried"], figures["retried_failed"]) == (3, 2, 1)


def test_methods_and_constructor_count_for_their_class(ring: events.Ring) -> None:
    task(ring)
    ring.write(events.CREATE, TASK_ID, ring.name("A.__init__"), 0.0, 1.0, 2.0)
    ring.write(events.CALL, TASK_ID, ring.name("A.m"), 0.0, 1.0, 4.0, events.FAILED)
    ring.write(events.GET, TASK_ID, ring.name("get"), 0.0, 1.0, 2.0)
    ledger = Ledger()
    count(ledger, ring)
    assert set(ledger.totals.functions()) == {"f", "A.__init__", "A.m"}
    classes = ledger.totals.classes()
    assert set(classes) == {"A"}
    assert (classes["A"]["count"], classes["A"]["failed"]) == (2, 1)


def test_an_attempt_lost_with_its_process_counts_with_the_memory_it_was_seen_with(ring: events.Ring) -> None:
    for peak in (0.0, 2.0**30):
        ring.write(events.LOST, TASK_ID, ring.name("f", "cd" * 8), 0.0, 1.0, 2.0, events.FAILED, 0, 0.0, peak)
    ledger = Ledger()
    ledger.classes["cd" * 8] = "A"
    count(ledger, ring)
    figures = ledger.totals.functions()["f"]
    assert (figures["count"], figures["failed"], figures["lost"]) == (2, 2, 2)
    assert figures["peak_memory"]["mean"] == 2**30
    assert ledger.totals.classes()["A"]["lost"] == 2


def test_what_was_counted_is_saved_and_counted_on(ring: events.Ring) -> None:
    task(ring, count=3)
    first = Ledger()
    count(first, ring)
    second = Ledger()
    second.load(first.dump())
    second.load({})
    assert second.figures() == first.figures()
