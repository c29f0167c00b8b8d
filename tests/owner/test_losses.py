"""What is said of an object that cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.exceptions import (
    ObjectLostError,
    ObjectReconstructionFailedError,
    ReferenceCountingAssertionError,
)
from sundog.ids import result_id
from sundog.owner import losses
from sundog.owner.lanes import ActorLane
from sundog.owner.rows import Fn, Task
from sundog.state.lineage import EVICTED, Lineage, Plan
from sundog.wire.cause import SIGNAL, Cause
from tests.owner.fakes import ME, OTHER, FakeControl, make_owner, new_id


def _task(most: int, **facts: Any) -> Task:
    fn = Fn(1, "load")
    fn.max_retries = most
    task = Task(b"t" * 16, fn, None, 0.0)
    for name, value in facts.items():
        setattr(task, name, value)
    return task


def _dead_actor() -> ActorLane:
    lane = ActorLane(b"a" * 16, "Model", set())
    lane.state = "DEAD"
    return lane


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (_task(3), ""),
        (_task(-1), ""),
        (_task(3, cancelled=True), "its task was cancelled"),
        (_task(0), "load() has max_retries=0, so it may not run again"),
        (_task(2, retries=0, attempt=2), "load() has run 3 times, which is all that max_retries=2 allows"),
        (_task(3, actor=_dead_actor()), "actor Model, whose method made it, is dead"),
    ],
)
def test_why_a_finished_task_may_not_run_again_is_said(task: Task, words: str) -> None:
    assert losses.why_not(task) == words


def _failed(why: str, *chain: bytes) -> Any:
    return losses.cannot_rebuild(make_owner(), Lineage(1 << 20), chain[0], "seg", Plan(chain=chain, why=why))


@pytest.mark.parametrize(
    ("why", "reason", "advice"),
    [
        (losses.why_not(_task(0)), "RETRIES_DISABLED", "max_retries=…"),
        (losses.why_not(_task(2, retries=0)), "MAX_ATTEMPTS_EXCEEDED", "max_retries=…"),
        (losses.why_not(_task(3, cancelled=True)), "TASK_CANCELLED", ""),
        (losses.why_not(_task(3, actor=_dead_actor())), "ACTOR_DIED", ""),
        (EVICTED, "LINEAGE_EVICTED", "max_lineage_bytes"),
        ("anything else", "REF_NOT_FOUND", ""),
    ],
)
def test_an_error_carries_a_word_for_programs_and_advice_for_people(
    why: str, reason: str, advice: str
) -> None:
    oid = new_id()
    error = _failed(why, oid)
    assert isinstance(error, ObjectReconstructionFailedError)
    assert error.reason == reason and f"{why} ({reason})" in str(error)
    assert advice in str(error) and "its segment /nowhere/seg was removed" in str(error)


def test_a_value_that_no_task_made_is_lost_for_good_and_says_how_to_have_it_back() -> None:
    oid = result_id(ME + b"t" * 8, 0)
    error: Any = _failed("", oid)
    assert error.reason == "PUT" and type(error) is ObjectLostError
    assert "Put it again, or let a task make it" in str(error)


def test_a_result_that_needs_a_lost_put_names_the_whole_chain() -> None:
    oid, needed = new_id(), result_id(ME + b"p" * 8, 0)
    error = _failed("", oid, needed)
    assert error.reason == "PUT" and [each for each, _ in error.chain] == [oid.hex(), needed.hex()]
    assert f"which needs object {needed.hex()} of put()" in str(error)


def test_a_long_chain_is_cut_in_its_middle() -> None:
    chain = [new_id() for _ in range(50)]
    error = _failed("its task was cancelled", *chain)
    text = str(error)
    assert "… 30 more …" in text and text.count("which needs") == 19
    assert len(error.chain) == 50


def test_an_object_that_the_program_freed_says_who_did_it_and_where() -> None:
    oid = new_id()
    error = losses.freed(oid, ("ab" * 8, 812, "train.py:7"))
    assert "process " + "ab" * 8 + " (pid 812) called sundog.internal.free() on it at train.py:7" in str(
        error
    )
    assert (error.freed_by, error.freed_at, error.pid) == ("ab" * 8, "train.py:7", 812)
    assert losses.is_freed(make_owner().objects.error_value(error))
    assert not losses.is_freed(make_owner().objects.error_value(ValueError("x"))) and not losses.is_freed(
        None
    )


def test_an_object_of_a_dead_owner_says_how_the_owner_ended() -> None:
    control: Any = FakeControl()
    error: Any = losses.owner_died(control, new_id(OTHER), Cause(kind=SIGNAL, signal=11))
    assert f"process {OTHER.hex()}, which owned the object, is gone: it crashed with SIGSEGV." in str(error)
    assert (error.signal, error.owner_id) == (11, OTHER.hex())
    assert f"sundog why {OTHER.hex()}" in str(error)


def test_an_unknown_object_of_this_process_was_freed_and_one_of_another_is_of_another_session() -> None:
    assert isinstance(losses.unknown(ME, new_id()), ReferenceCountingAssertionError)
    stranger = losses.unknown(ME, new_id(OTHER))
    assert type(stranger) is ObjectLostError and "only valid in the session that made it" in str(stranger)
    assert "lineage_pinning_enabled is off" in str(losses.not_allowed(make_owner().segments, new_id(), "s"))
