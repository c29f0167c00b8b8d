"""Workers that cannot start: put off ever longer, and said now and then."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.node.failed_starts import FailedStarts
from sundog.wire.control import StartFailed
from tests.node.fakes import FakeJob, FakeNode, FakeProcess


@pytest.fixture
def node() -> Any:
    made = FakeNode()
    made.join(FakeProcess(), FakeJob())
    return made


def _fails(starts: FailedStarts, env_key: str = "e") -> None:
    process: Any = FakeProcess(b"worker01", kind="worker", env_key=env_key)
    starts.told(process, StartFailed("can't start new thread."))


def test_failures_in_a_row_are_counted_for_each_environment(node: Any) -> None:
    starts = FailedStarts(node)
    for env_key in ("a", "a", "b"):
        _fails(starts, env_key)
    assert node.leases.delayed == [(b"node", "a", 1), (b"node", "a", 2), (b"node", "b", 1)]


def test_a_failure_long_after_the_last_one_begins_a_new_series(node: Any) -> None:
    starts = FailedStarts(node)
    _fails(starts)
    node.at = 61.0
    _fails(starts)
    assert [failures for _, _, failures in node.leases.delayed] == [1, 1]


def test_drivers_hear_of_it_once_a_minute_and_the_log_each_time(node: Any) -> None:
    starts = FailedStarts(node)
    for at in (0.0, 30.0, 60.0):
        node.at = at
        _fails(starts)
    sent = node.processes[b"process1"].line.sent
    assert len(sent) == 2 and len(node.lines) == 3
    assert sent[0].text == (
        "Workers cannot start now, so tasks and actors wait: can't start new thread. See: sundog status"
    )


def test_control_characters_of_a_reason_do_not_reach_the_terminal(node: Any) -> None:
    FailedStarts(node).say("broken\x1b[2J")
    assert "\x1b" not in node.processes[b"process1"].line.sent[0].text
