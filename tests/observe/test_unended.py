"""What had not ended: an earlier attempt of the same task does not count as its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog import events
from sundog.observe import unended
from sundog.observe.index import opened
from sundog.observe.records import base_rows

DRIVER, FIRST, SECOND = b"\x11" * 8, b"\x22" * 8, b"\x33" * 8
TASK = DRIVER + bytes(8)


@pytest.fixture
def rings(tmp_path: Path) -> Iterator[list[events.Ring]]:
    (tmp_path / "rings").mkdir()
    found = [
        events.Ring(str(tmp_path / "rings" / f"{each.hex()}.ring"), 64, "worker") for each in (FIRST, SECOND)
    ]
    yield found
    for each in found:
        each.close()


def running(folder: Path) -> list[tuple[str, float]]:
    with opened(str(folder)) as index:
        return [(row.name, row.start_s or 0.0) for row in unended.running(index, base_rows(index))]


def test_a_retry_runs_though_the_attempt_before_it_is_recorded(
    tmp_path: Path, rings: list[events.Ring]
) -> None:
    first, second = rings
    first.started(TASK, 1.0, first.name("f"))
    first.write(events.TASK, TASK, first.name("f"), 0.5, 1.0, 2.0, events.FAILED)
    assert running(tmp_path) == []
    second.started(TASK, 3.0, second.name("f"))
    assert running(tmp_path) == [("f", 3.0)]
    second.write(events.TASK, TASK, second.name("f"), 0.5, 3.0, 4.0, 0, 1)
    assert running(tmp_path) == []


def test_a_driver_that_is_gone_and_did_not_say_so_was_killed(
    tmp_path: Path, rings: list[events.Ring]
) -> None:
    driver = events.Ring(str(tmp_path / "rings" / f"{DRIVER.hex()}.ring"), 64, "driver", b"\1\0\0\0")
    with opened(str(tmp_path)) as index:
        assert unended.killed_drivers(index) == set(), "it lives"
        index.db.execute(
            "INSERT INTO facts(at_s, kind, subject, json) VALUES(1, 'worker', ?, '{}')", (DRIVER.hex(),)
        )
        assert unended.killed_drivers(index) == {DRIVER.hex()}
        assert unended.killed_jobs(index) == {"01000000"}
    driver.note("left", at_s=2.0)
    with opened(str(tmp_path)) as index:
        assert unended.killed_drivers(index) == set(), "it left in good order"
    driver.close()


def test_the_last_moment_is_that_of_the_last_task_or_look_at_the_machine(
    tmp_path: Path, rings: list[events.Ring]
) -> None:
    rings[0].write(events.TASK, TASK, rings[0].name("f"), 0.5, 1.0, 2.0)
    with opened(str(tmp_path)) as index:
        assert unended.last_moment(index) == 2.0
        index.db.execute("INSERT INTO machine(at_s) VALUES(7.0)")
        assert unended.last_moment(index) == 7.0
