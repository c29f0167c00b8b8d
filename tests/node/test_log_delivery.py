"""What workers print, and which driver gets it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sundog.node.log_delivery import LogDelivery
from sundog.node.logs import LogBatch
from sundog.node.rows import Job
from sundog.wire.control import LogLines
from tests.node.fakes import FakeLoop, FakeProcess

WORKER = b"worker11"


class FakeTails:
    """The files of workers: polls that the test has prepared, one after the other."""

    def __init__(self) -> None:
        self.polls: list[list[LogBatch]] = []
        self.asked_at: list[float] = []
        self.due: float | None = 0.25
        self.unread = [0]

    def next_poll_in_s(self, _now: float) -> float | None:
        return self.due

    def poll(self, now: float) -> list[LogBatch]:
        self.asked_at.append(now)
        return self.polls.pop(0) if self.polls else []

    @property
    def pending_bytes(self) -> int:
        return self.unread.pop(0) if len(self.unread) > 1 else self.unread[0]


def _now() -> float:
    return 10.0


class Place:
    """A delivery between fakes, and two drivers with a job each."""

    def __init__(self) -> None:
        self.tails, self.loop = FakeTails(), FakeLoop()
        self.one, self.other = (
            FakeProcess(b"driver01", job_id=b"one"),
            FakeProcess(b"driver02", job_id=b"two"),
        )
        self.jobs = {
            driver.job_id: Job(driver.job_id, driver.process_id, 1, "", "", cast(Any, None), 0.0)
            for driver in (self.one, self.other)
        }
        processes = {driver.process_id: driver for driver in (self.one, self.other)}
        self.delivery = LogDelivery(
            cast(Any, self.tails), cast(Any, self.loop), _now, self.jobs, cast(Any, processes)
        )


@pytest.fixture
def place() -> Place:
    return Place()


def batch(job_id: bytes, *lines: str) -> LogBatch:
    return LogBatch(WORKER, 5, job_id, "f", False, list(lines))


def told(driver: FakeProcess) -> list[Any]:
    return cast(list[Any], cast(Any, driver.line).sent)


def test_lines_go_to_the_driver_of_their_job_alone(place: Place) -> None:
    place.tails.polls = [[batch(b"one", "hello"), batch(b"two", "good day"), batch(b"ended", "nobody")]]
    place.delivery.wake()
    place.loop.fire()
    assert told(place.one) == [LogLines(tuple(batch(b"one", "hello")))]
    assert told(place.other) == [LogLines(tuple(batch(b"two", "good day")))]


def test_a_driver_that_wants_no_logs_gets_none(place: Place) -> None:
    place.jobs[b"one"].log_to_driver = False
    place.tails.polls = [[batch(b"one", "hello")]]
    place.delivery.flush()
    assert told(place.one) == []


def test_the_files_are_looked_at_again_until_none_is_followed(place: Place) -> None:
    place.delivery.wake()
    place.delivery.wake()
    assert place.loop.delays == [0.25], "one timer is enough"
    place.tails.due = 0.0
    place.loop.fire()
    assert place.loop.delays == [0.25, 0.005], "never without a pause"
    place.tails.due = None
    place.loop.fire()
    assert place.loop.timers == []


def test_a_flush_reads_on_while_a_long_line_has_not_ended(place: Place) -> None:
    place.tails.polls = [[], [batch(b"one", "x" * 10)]]
    place.tails.unread = [10, 0]
    place.delivery.flush()
    assert len(told(place.one)) == 1 and min(place.tails.asked_at) > 1e5
