"""Submissions and runs of tasks, told by different processes."""

from __future__ import annotations

from typing import Any

from sundog import events
from sundog.ray_engine.matches import Matches

UNIQUE, OWNER, WORKER = b"unique-1", b"owner--1", b"worker-1"


def run(start_s: float, end_s: float, attempt: int = 0, kind: int = events.TASK) -> tuple[Any, ...]:
    return (bytes(8) + UNIQUE, 0.0, start_s, end_s, 1, kind, 0, attempt, 0.5, 9.0)


def test_a_run_gets_its_owner_and_when_it_was_submitted() -> None:
    matches = Matches()
    assert matches.submitted(UNIQUE, OWNER, 5.0, "f") == []
    fields = matches.told(WORKER, run(6.0, 7.0))
    assert fields == (OWNER + UNIQUE, 5.0, 6.0, 7.0, 1, events.TASK, 0, 0, 0.5, 9.0)
    assert matches.unfinished() == {}


def test_a_run_that_comes_first_waits_for_its_submission() -> None:
    matches = Matches()
    assert matches.told(WORKER, run(6.0, 7.0)) is None
    ((process, fields),) = matches.submitted(UNIQUE, OWNER, 5.0, "f")
    assert process == WORKER and fields[:3] == (OWNER + UNIQUE, 5.0, 6.0)


def test_no_run_starts_before_its_submission_whatever_the_clocks_say() -> None:
    matches = Matches()
    matches.submitted(UNIQUE, OWNER, 5.0, "f")
    fields = matches.told(WORKER, run(4.999, 4.9995))
    assert fields is not None and fields[1:4] == (5.0, 5.0, 5.0)


def test_a_get_keeps_all_its_fields_but_for_the_owner_of_its_object() -> None:
    matches = Matches()
    matches.submitted(UNIQUE, OWNER, 5.0, "f")
    fields = matches.told(WORKER, run(1.0, 2.0, kind=events.GET))
    assert fields == (OWNER + UNIQUE, *run(1.0, 2.0, kind=events.GET)[1:])


def test_a_task_that_never_ran_is_unfinished() -> None:
    matches = Matches()
    matches.submitted(UNIQUE, OWNER, 5.0, "f")
    assert [each.name for each in matches.unfinished().values()] == ["f"]


def test_what_waits_at_the_end_goes_without_an_owner() -> None:
    matches = Matches()
    matches.told(WORKER, run(6.0, 7.0))
    assert matches.give_up() == [(WORKER, (bytes(8) + UNIQUE, 6.0, *run(6.0, 7.0)[2:]))]
    assert matches.give_up() == []


def test_the_attempts_of_a_task_are_told_apart() -> None:
    matches = Matches()
    matches.submitted(UNIQUE, OWNER, 5.0, "f")
    matches.told(WORKER, run(6.0, 7.0, attempt=1))
    assert matches.known[UNIQUE].ended == 0b10
