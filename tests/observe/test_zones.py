"""Zones: a condition admits every row that is asked for, and not many others."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from sundog import events
from sundog.observe import schema, zones
from sundog.observe.index import opened

OWNERS = (b"\x11" * 8, b"\x22" * 8)
ROWS = 20_000


def task(owner: int, number: int) -> bytes:
    return OWNERS[owner] + number.to_bytes(8, "little")


def fill(db: sqlite3.Connection, task_ids: list[bytes], at_s: float) -> None:
    told = zones.Zones(db)
    db.executemany(
        "INSERT INTO attempts(task_id, submit_s, start_s, end_s) VALUES(?, ?, ?, ?)",
        [
            (each, at_s + number, at_s + number + 0.25, at_s + number + 0.5)
            for number, each in enumerate(task_ids)
        ],
    )
    told.add(task_ids)
    told.save()


@pytest.fixture
def db() -> sqlite3.Connection:
    """Four times 5,000 tasks of one owner, one second each."""
    found = sqlite3.connect(":memory:")
    found.executescript(schema.TABLES)
    for first in range(0, ROWS, 5000):
        fill(found, [task(0, number) for number in range(first, first + 5000)], float(first))
    return found


def admitted(db: sqlite3.Connection, condition: str) -> set[bytes]:
    return {each for (each,) in db.execute(f"SELECT a.task_id FROM attempts a WHERE {condition}")}


def test_a_stretch_of_time_admits_its_rows_and_few_others(db: sqlite3.Connection) -> None:
    found = admitted(db, zones.during(db, 7000.0, 7001.0))
    assert task(0, 7000) in found
    assert len(found) <= 5000


def test_a_task_is_found_in_its_zone_alone(db: sqlite3.Connection) -> None:
    found = admitted(db, zones.holding(db, [task(0, 12_345)]))
    assert task(0, 12_345) in found
    assert len(found) <= 5000
    assert admitted(db, zones.holding(db, [task(1, 12_345)])) == set()


def test_tasks_of_several_owners_are_found_together(db: sqlite3.Connection) -> None:
    fill(db, [task(number % 2, 90_000 + number) for number in range(100)], 50_000.0)
    wanted = {task(0, 3), task(0, 90_002), task(1, 90_001)}
    assert wanted <= admitted(db, zones.holding(db, wanted))


def test_rows_that_come_a_few_at_a_time_share_a_zone(db: sqlite3.Connection) -> None:
    before = db.execute("SELECT count(*) FROM zones").fetchone()[0]
    for number in range(50):
        fill(db, [task(0, ROWS + number)], float(ROWS + number))
    assert db.execute("SELECT count(*) FROM zones").fetchone()[0] <= before + 1
    assert zones.bounds(db) == (0.0, ROWS + 49.5)
    assert task(0, ROWS + 49) in admitted(db, zones.holding(db, [task(0, ROWS + 49)]))


def test_many_ranges_become_one_that_contains_them(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zones, "_ROWS", 5)
    for number in range(200):  # zones of two owners in turn
        fill(db, [task(number % 2, 100_000 + number * 6 + each) for each in range(6)], 1e6 + number * 100)
    found = zones.holding(db, [task(0, 0), task(0, 200_000)])
    assert found.count("BETWEEN") == 1
    assert admitted(db, found) >= {task(0, number) for number in range(100_000, 100_006)}


def test_numbers_beyond_what_sqlite_can_hold_are_found(db: sqlite3.Connection) -> None:
    last = task(1, (1 << 64) - 1)
    fill(db, [last], 1e6)
    assert last in admitted(db, zones.holding(db, [last]))


def test_an_empty_table_admits_nothing_and_has_no_bounds() -> None:
    found = sqlite3.connect(":memory:")
    found.executescript(schema.TABLES)
    assert zones.bounds(found) == (0.0, 0.0)
    assert admitted(found, zones.during(found, 0.0, 1e12)) == set()
    assert admitted(found, zones.holding(found, [task(0, 1)])) == set()


def test_counts_and_zones_of_a_flood_agree_with_its_rows(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir()
    ring = events.Ring(str(tmp_path / "rings" / f"{'cd' * 8}.ring"), 4096, "worker", b"\1\0\0\0")
    for number in range(1000):
        flags = events.FAILED if number % 10 == 0 else 0
        ring.write(events.TASK, task(0, number), ring.name("f"), 1.0, 2.0 + number, 3.0 + number, flags)
    with opened(str(tmp_path)) as index:
        assert index.rows("SELECT failed, sum(count), sum(queued_s) FROM counts GROUP BY 1") == index.rows(
            "SELECT flags & 1, count(*), sum(start_s - submit_s) FROM attempts GROUP BY 1"
        )
        assert zones.bounds(index.db) == (1.0, 1002.0)
        assert index.rows("SELECT low, high, last - first + 1 FROM zones") == [(0, 999, 1000)]
    ring.close()
