"""The summary of workers that ended for lack of memory."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.config import Config
from sundog.node.deaths import Deaths
from sundog.wire.cause import KERNEL_OOM, MEMORY, SIGNAL, Cause
from tests.node.fakes import FakeJob, FakeNode, FakeProcess

FOR_MEMORY = Cause(kind=MEMORY, reason="memory was running out")
CRASH = Cause(kind=SIGNAL, signal=11)


@pytest.fixture
def node() -> FakeNode:
    made = FakeNode(Config(memory_summary_s=60.0))
    made.join(FakeProcess(), FakeJob())
    return made


def _told(node: FakeNode) -> list[str]:
    return [message.text for message in node.processes[b"process1"].line.sent]


def test_many_ends_are_one_line_that_counts_them(node: Any) -> None:
    deaths = Deaths(node)
    for cause in (FOR_MEMORY, Cause(kind=KERNEL_OOM), CRASH):
        deaths.count(cause)
    assert len(node.loop.timers) == 1
    node.loop.fire()
    [text] = _told(node)
    assert text.startswith(
        "2 workers ended for lack of memory and 1 worker crashed for other reasons so far on node"
    )
    assert (
        "this machine: 8.00 GB of 10.00 GB in use, at most 9.00 GB may be" in text and "sundog status" in text
    )


def test_the_next_line_comes_after_the_interval_and_counts_only_what_is_new(node: Any) -> None:
    deaths = Deaths(node)
    deaths.count(FOR_MEMORY)
    node.loop.fire()
    node.at = 10.0
    deaths.count(FOR_MEMORY)
    assert node.loop.delays[-1] == 50.0
    node.at = 60.0
    node.loop.fire()
    assert (
        "1 worker ended for lack of memory and 0 workers crashed for other reasons in the last 60 s"
        in _told(node)[1]
    )


def test_crashes_alone_are_not_summarised(node: Any) -> None:
    deaths = Deaths(node)
    deaths.count(CRASH)
    assert node.loop.timers == [] and deaths.other_total == 1
    deaths.summarise()
    assert _told(node) == []


@pytest.mark.parametrize(
    "cause",
    [
        Cause(kind=MEMORY, intended=True),
        Cause(kind=MEMORY, facts={"cap_bytes": 1}),
        Cause(kind=MEMORY, facts={"job": "01"}),
    ],
)
def test_an_end_that_says_nothing_of_the_machine_is_not_counted(node: Any, cause: Cause) -> None:
    deaths = Deaths(node)
    deaths.count(cause)
    assert (deaths.memory_total, deaths.other_total) == (0, 0)


def test_a_driver_that_shows_no_output_is_not_told_and_the_end_of_a_session_is_no_news(node: Any) -> None:
    node.jobs[b"job1"].log_to_driver = False
    deaths = Deaths(node)
    deaths.tell("text")
    assert _told(node) == [] and node.lines == ["text"]
    node.stopping = True
    deaths.count(FOR_MEMORY)
    assert deaths.memory_total == 0
