"""Capsules of calls on a Ray cluster are capsules like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.capsules import replay, rows
from sundog.capsules.capture import outcome_of_error
from sundog.config import Config
from sundog.ray_engine import capsules, shim
from tests.ray_engine.fakes import FakeExecution

TASK = bytes(8) + b"unique-1"


def halve(x: int) -> int:
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x // 2


class Account:
    """An actor class of the user's."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    def take(self, amount: int) -> int:
        if amount > self.amount:
            raise ValueError("not that much")
        return self.amount - amount


def run_of(kind: int, name: str, *call: Any) -> Any:
    return FakeExecution(kind, name, TASK, call)


def kept(tmp_path: Path, execution: Any, error: Exception) -> tuple[rows.Header, rows.Contents]:
    capsules.keep_run(str(tmp_path), execution, outcome_of_error(error), Config())
    (path,) = (tmp_path / "capsules").iterdir()
    session = tmp_path / "session_x"
    session.mkdir()
    whole = capsules.keep(str(session), path.read_bytes(), lambda unique: b"owner--1".hex() + unique)
    return rows.read_header(whole), rows.read_contents(whole)


def test_a_failed_task_can_be_run_again_under_its_whole_id(tmp_path: Path) -> None:
    header, contents = kept(tmp_path, run_of(events.TASK, "halve", halve, (3,), {}), ValueError("3 is odd"))
    assert header.task_id == (b"owner--1" + TASK[8:]).hex() and header.session == "session_x"
    assert header.outcome.error == "ValueError"
    with pytest.raises(ValueError, match="3 is odd"):
        replay.prepare(header, contents).call()


def test_a_failed_call_is_run_on_an_actor_that_is_made_anew(tmp_path: Path) -> None:
    made: Any = shim.actor_class(Account, ())
    actor = object.__new__(made)
    capsules.constructed(run_of(events.CREATE, "Account.__init__", None, (actor, 5), {}))
    execution = run_of(events.CALL, "Account.take", Account.take, (actor, 9), {})
    header, contents = kept(tmp_path, execution, ValueError("not that much"))
    assert (header.kind, header.state) == ("call", "constructed")
    with pytest.raises(ValueError, match="not that much"):
        replay.prepare(header, contents).call()


def test_arguments_that_are_too_large_leave_no_capsule(tmp_path: Path) -> None:
    execution = run_of(events.TASK, "halve", halve, (b"x" * 100,), {})
    with pytest.raises(OverflowError):
        capsules.keep_run(
            str(tmp_path), execution, outcome_of_error(ValueError()), Config(capsule_max_bytes=10)
        )
    assert not (tmp_path / "capsules").exists()
