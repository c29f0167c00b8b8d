"""Which workers are told that nobody holds a result any more."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.ids import result_id
from sundog.owner.rows import SENT, Fn, Task
from sundog.owner.unwanted import UnwantedResults
from sundog.wire.peers import AskUnwanted
from tests.owner.fakes import ME, make_owner

WORKER = b"w" * 8
TASK = ME + b"t" * 8


def make(returns: Any = 4) -> tuple[Any, UnwantedResults, Task]:
    owner = make_owner()
    task = Task(TASK, Fn(1, "f"), None, 5.0)
    task.fn.returns, task.state = returns, SENT
    owner.table[task.id] = task
    return owner, UnwantedResults(owner, owner.peers), task


def test_a_worker_that_asks_is_told_what_is_free_and_then_what_becomes_free() -> None:
    owner, unwanted, _ = make()
    owner.freed_early |= {result_id(TASK, 2), result_id(TASK, 4)}
    unwanted.asked(WORKER, AskUnwanted(TASK))
    unwanted.freed(result_id(TASK, 3))
    assert owner.peers.sent == [(WORKER, "unwanted", TASK, [2, 4]), (WORKER, "unwanted", TASK, [3])]


def test_nothing_is_told_to_a_worker_that_has_not_asked() -> None:
    owner, unwanted, _ = make()
    unwanted.freed(result_id(TASK, 3))
    assert owner.peers.sent == []


def test_a_task_that_has_ended_is_forgotten_at_the_next_question() -> None:
    owner, unwanted, task = make()
    unwanted.asked(WORKER, AskUnwanted(TASK))
    del owner.table[task.id]
    unwanted.asked(WORKER, AskUnwanted(ME + b"x" * 8))
    unwanted.freed(result_id(TASK, 3))
    assert owner.peers.sent == []


@pytest.mark.parametrize("case", ["streaming", "rebuilding"])
def test_a_stream_and_a_task_that_runs_again_for_a_lost_result_get_no_answer(case: str) -> None:
    """A stream has no fixed results; of a task that runs again, what was free before may be needed."""
    owner, unwanted, task = make("streaming" if case == "streaming" else 4)
    if case == "rebuilding":
        task.rebuilding = {result_id(TASK, 1)}
    owner.freed_early.add(result_id(TASK, 2))
    unwanted.asked(WORKER, AskUnwanted(TASK))
    unwanted.freed(result_id(TASK, 3))
    assert owner.peers.sent == []
