"""A task that was answered and not recorded has a row all the same, once its driver has left in good order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog import events
from sundog.observe import segments
from sundog.observe.index import opened

DRIVER, WORKER, OTHER = b"\x11" * 8, b"\x22" * 8, b"\x33" * 8
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

    def worker_dies(self, at_s: float) -> None:
        facts = {"fact": "worker", "s": at_s, "subject": WORKER.hex(), "row": {"pid": 7}}
        writer = segments.Writer(self.path, b"n" * 16, 1000, 0.0)
        writer.append(segments.FACTS, (json.dumps(facts) + "\n").encode(), b"n" * 8)
        writer.close()

    def last_runs_again(self) -> None:
        other = events.Ring(f"{self.path}/rings/{OTHER.hex()}.ring", 64, "worker", b"\1\0\0\0")
        other.write(events.TASK, LAST, other.name("f"), 1.0, 7.0, 8.0, attempt=1)
        other.close()

    def attempts(self) -> list[tuple[object, ...]]:
        """Of the last task: number, flags for a failure, when it began and ended."""
        with opened(self.path) as index:
            return index.rows(
                "SELECT attempt, flags & 1, start_s, end_s FROM attempts WHERE task_id = ? ORDER BY 1", LAST
            )

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


# ---------------------------------------------------------------------- a result was lost and made again
def test_an_attempt_whose_result_was_lost_with_its_worker_has_ended(session: Session) -> None:
    session.worker_dies(at_s=5.0)
    session.last_runs_again()
    assert session.attempts() == [(0, 0, 4.0, 5.0), (1, 0, 7.0, 8.0)]
    session.driver.note("left", at_s=9.0)
    assert len(session.attempts()) == 2, "asked again, they are still two"


def test_an_attempt_that_its_owner_recorded_as_lost_is_not_said_to_have_ended(session: Session) -> None:
    session.driver.write(
        events.LOST, LAST, session.driver.name("f", WORKER.hex()), 1.0, 4.0, 5.0, events.FAILED
    )
    session.worker_dies(at_s=5.0)
    session.last_runs_again()
    assert session.attempts() == [(0, 1, 4.0, 5.0), (1, 0, 7.0, 8.0)]


def test_of_a_worker_that_lives_nothing_is_concluded(session: Session) -> None:
    session.last_runs_again()
    assert session.attempts() == [(1, 0, 7.0, 8.0)]
