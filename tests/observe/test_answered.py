"""A task that was answered and not recorded has a row all the same, once its driver has left in good order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog import events
from sundog.observe.index import opened

DRIVER, WORKER = b"\x11" * 8, b"\x22" * 8
FIRST, LAST = (DRIVER + number.to_bytes(8, "little") for number in (1, 2))


class Session:
    """A session that has ended: a driver, and a worker that wrote one record and began one task more."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder)
        (folder / "rings").mkdir()
        job = b"\1\0\0\0"
        self.driver = events.Ring(str(folder / "rings" / f"{DRIVER.hex()}.ring"), 64, "driver", job)
        self.worker = events.Ring(str(folder / "rings" / f"{WORKER.hex()}.ring"), 64, "worker", job)
        name = self.worker.name("f")
        self.worker.started(FIRST, 2.0, name)
        self.worker.write(events.TASK, FIRST, name, 1.0, 2.0, 3.0)
        self.worker.started(LAST, 4.0, name)

    def rows(self) -> list[tuple[object, ...]]:
        with opened(self.path) as index:
            return index.rows(
                "SELECT task_id, function, state, start_s, end_s, pid > 0 FROM tasks ORDER BY 1"
            )


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    found = Session(tmp_path)
    yield found
    found.driver.close()
    found.worker.close()


def test_a_task_that_its_driver_did_not_leave_unfinished_has_ended(session: Session) -> None:
    session.driver.note("left", at_s=5.0)
    last = (LAST.hex(), "f", "FINISHED", 4.0, 5.0, 1)
    assert session.rows()[1:] == [last]
    assert session.rows()[1:] == [last], "asked again, it is still one"


def test_one_that_raised_has_failed(session: Session) -> None:
    session.worker.note("error", task=LAST.hex(), attempt=0, type="E", message="E: no")
    session.driver.note("left", at_s=5.0)
    assert [row[2] for row in session.rows()] == ["FINISHED", "FAILED"]


def test_one_that_its_driver_left_unfinished_is_not_said_to_have_ended(session: Session) -> None:
    session.driver.note("failed", task=LAST.hex(), attempt=0, name="f", kind="task", end_s=5.0)
    session.driver.note("left", at_s=5.0)
    assert [row[2] for row in session.rows()] == ["FINISHED", "FAILED"]


def test_of_a_driver_that_was_killed_nothing_is_concluded(session: Session) -> None:
    assert len(session.rows()) == 1


def test_a_record_that_is_there_is_not_written_twice(session: Session) -> None:
    session.worker.write(events.TASK, LAST, session.worker.name("f"), 1.0, 4.0, 4.5)
    session.driver.note("left", at_s=5.0)
    assert [row[4] for row in session.rows()] == [3.0, 4.5]
