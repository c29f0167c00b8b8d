"""A session's rings read on and on: every event counted once, what was overwritten said."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import events
from sundog.observe.ledger import Ledger, session_usage

TASK_ID = bytes(range(16))


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    folder = tmp_path / "rings"
    folder.mkdir()
    return folder


def make(rings: Path, process: str = "ab" * 8, capacity: int = 64, role: str = "worker") -> events.Ring:
    return events.Ring(str(rings / f"{process}.ring"), capacity, role)


def task(
    ring: events.Ring,
    name: str = "f",
    seconds: float = 1.0,
    flags: int = 0,
    peak: float = 1e6,
    count: int = 1,
) -> None:
    for _ in range(count):
        ring.write(
            events.TASK, TASK_ID, ring.name(name), 0.0, 10.0, 10.0 + seconds, flags, 0, seconds / 2, peak
        )


def test_totals_hold_more_than_the_ring_does(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    for _ in range(10):
        task(ring, count=50)
        assert ledger.drain(ring.path) == 50
    figures = ledger.totals.functions()["f"]
    assert (figures["count"], ledger.missed) == (500, 0)
    assert figures["duration_s"]["mean"] == pytest.approx(1.0)
    assert figures["cpu_s"]["max"] == pytest.approx(0.5)
    assert figures["peak_memory"]["max"] == 1e6
    ring.close()


def test_what_was_overwritten_before_it_was_read_is_counted(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    task(ring, count=200)
    ledger.drain(ring.path)
    assert (ledger.totals.functions()["f"]["count"], ledger.missed) == (64, 136)
    ring.close()


def test_portions_add_up(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    task(ring, count=60)
    assert [ledger.drain(ring.path, 25) for _ in range(4)] == [25, 25, 10, 0]
    assert ledger.totals.functions()["f"]["count"] == 60
    ring.close()


def test_methods_and_constructor_count_for_their_class(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    task(ring)
    ring.write(events.CREATE, TASK_ID, ring.name("A.__init__"), 0.0, 1.0, 2.0)
    ring.write(events.CALL, TASK_ID, ring.name("A.m"), 0.0, 1.0, 4.0, events.FAILED)
    ring.write(events.GET, TASK_ID, ring.name("get"), 0.0, 1.0, 2.0)
    ledger.drain(ring.path)
    assert set(ledger.totals.functions()) == {"f", "A.__init__", "A.m"}
    classes = ledger.totals.classes()
    assert set(classes) == {"A"}
    assert (classes["A"]["count"], classes["A"]["failed"]) == (2, 1)
    ring.close()


def test_an_attempt_lost_with_its_process_counts_with_the_memory_it_was_seen_with(rings: Path) -> None:
    worker, driver = make(rings, "cd" * 8), make(rings, "ef" * 8, role="driver")
    ledger = Ledger(str(rings.parent))
    seen: list[tuple[str, int]] = []
    ledger.observers.append(lambda name, peak: seen.append((name, peak)))
    for peak in (0.0, 2.0**30):
        name = driver.name("f", "cd" * 8)
        driver.write(events.LOST, TASK_ID, name, 0.0, 1.0, 2.0, events.FAILED, 0, 0.0, peak)
    ledger.drain_all()
    figures = ledger.totals.functions()["f"]
    assert (figures["count"], figures["failed"], figures["lost"]) == (2, 2, 2)
    assert figures["peak_memory"]["mean"] == 2**30
    assert seen == [("f", 2**30)]
    worker.close()
    driver.close()


def test_observers_hear_of_measured_tasks_only(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    seen: list[tuple[str, int]] = []
    ledger.observers.append(lambda name, peak: seen.append((name, peak)))
    task(ring, "short")
    task(ring, "long", flags=events.MEASURED, peak=5e6)
    ledger.drain(ring.path)
    assert seen == [("long", 5_000_000)]
    ring.close()


def test_an_event_in_the_making_is_waited_for_once(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    task(ring, count=3)
    at = events.HEADER_BYTES + 2 * events.EVENT_BYTES - 8
    with open(ring.path, "r+b") as file:
        file.seek(at)
        file.write(bytes(8))
    assert ledger.drain(ring.path) == 1
    with open(ring.path, "r+b") as file:
        file.seek(at)
        file.write((2).to_bytes(8, "little"))
    assert ledger.drain(ring.path) == 2
    assert (ledger.totals.functions()["f"]["count"], ledger.missed) == (3, 0)
    ring.close()


def test_an_event_that_never_comes_is_passed_over_and_counted(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    task(ring, count=3)
    with open(ring.path, "r+b") as file:
        file.seek(events.HEADER_BYTES + 2 * events.EVENT_BYTES - 8)
        file.write(bytes(8))
    for _ in range(3):
        ledger.drain(ring.path)
    assert (ledger.totals.functions()["f"]["count"], ledger.missed) == (2, 1)
    ring.close()


def test_a_finished_session_is_what_was_saved_and_what_came_after(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    for _ in range(3):
        task(ring, count=50)
        ledger.drain(ring.path)
    ledger.save()
    task(ring, count=7)
    ring.close()
    for _ in range(2):  # reading leaves it as it was
        found = session_usage(str(rings.parent))
        assert (found["functions"]["f"]["count"], found["missed"]) == (157, 0)


def test_a_session_whose_node_was_killed_is_read_from_its_rings(rings: Path) -> None:
    ring = make(rings)
    task(ring, count=70)
    ring.close()
    found = session_usage(str(rings.parent))
    assert (found["functions"]["f"]["count"], found["missed"]) == (64, 6)


def test_names_of_a_process_that_is_gone_are_not_kept(rings: Path) -> None:
    ring, ledger = make(rings), Ledger(str(rings.parent))
    task(ring, "one", count=3)
    ledger.drain(ring.path)
    task(ring, "two", count=2)
    ledger.drain(ring.path, final=True)
    counts = {name: figures["count"] for name, figures in ledger.totals.functions().items()}
    assert counts == {"one": 3, "two": 2}
    assert not ledger.tails[f"{'ab' * 8}.ring"].names
    ring.close()
