"""Rows of the state API for tasks: which columns follow from which records."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.observe.records import ProcessRow, SessionRows
from sundog.observe.task_states import rows_of
from sundog.observe.timeline import TaskRow

DRIVER, WORKER, ACTOR = b"d" * 8, b"w" * 8, b"a" * 8
JOB = b"\x01\0\0\0"
ACTOR_ID = DRIVER + b"\x09" + bytes(7)


def task_id(owner: bytes, number: int) -> bytes:
    return owner + number.to_bytes(8, "little")


def ended(number: int, owner: bytes = DRIVER, worker: bytes = WORKER, **facts: Any) -> TaskRow:
    given: dict[str, Any] = {"submit_s": 1.0, "start_s": 2.0, "end_s": 3.0, "ok": True, "name": "f", **facts}
    return TaskRow(task_id=task_id(owner, number), owner_id=owner, worker_id=worker, pid=7, **given)


def told(number: int, state: str, **facts: Any) -> dict[str, Any]:
    return {
        "task": task_id(DRIVER, number).hex(),
        "owner": DRIVER.hex(),
        "attempt": 0,
        "name": "f",
        "function": "f",
        "kind": "task",
        "actor": "",
        "resources": {"CPU": 1.0},
        "pg": "",
        "submit_s": 1.0,
        "state": state,
        "worker": "",
        "pid": 0,
        **facts,
    }


@pytest.fixture
def found() -> SessionRows:
    rows = SessionRows()
    for each in (
        ProcessRow(DRIVER, 1, "driver", JOB),
        ProcessRow(WORKER, 2, "worker", JOB),
        ProcessRow(ACTOR, 3, "worker", JOB, ACTOR_ID, "named", "me", True),
    ):
        rows.processes[each.process_id] = each
    return rows


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    [row] = rows
    return row


def test_a_drivers_task_has_the_drivers_own_task_as_parent(found: SessionRows) -> None:
    found.tasks = [ended(1)]
    row = only(rows_of(found, [], "n"))
    assert row["parent_task_id"] == "f" * 40 + JOB.hex()
    assert (row["job_id"], row["state"], row["worker_pid"]) == (JOB.hex(), "FINISHED", 7)
    assert (row["creation_time_ms"], row["start_time_ms"], row["end_time_ms"]) == (1000, 2000, 3000)
    assert [event["state"] for event in row["events"]][-2:] == ["RUNNING", "FINISHED"]


def test_the_parent_is_the_task_that_ran_in_the_submitting_worker_at_that_moment(found: SessionRows) -> None:
    found.tasks = [ended(1, start_s=2.0, end_s=3.0), ended(2, start_s=4.0, end_s=9.0)]
    found.tasks.append(ended(1, owner=WORKER, worker=b"x" * 8, submit_s=5.0))
    assert rows_of(found, [], "n")[2]["parent_task_id"] == task_id(DRIVER, 2).hex()


def test_the_parent_may_still_run(found: SessionRows) -> None:
    found.begun[task_id(DRIVER, 2)] = (WORKER, 2, 4.0)
    found.tasks = [ended(1, owner=WORKER, worker=b"x" * 8, submit_s=5.0)]
    assert only(rows_of(found, [], "n"))["parent_task_id"] == task_id(DRIVER, 2).hex()


def test_the_parent_in_an_actor_that_runs_several_calls_is_its_creation(found: SessionRows) -> None:
    found.tasks = [ended(1, owner=ACTOR, submit_s=5.0)]
    assert only(rows_of(found, [], "n"))["parent_task_id"] == ACTOR_ID.hex()


def test_a_call_is_named_after_what_its_actor_calls_itself_unless_it_has_a_name(found: SessionRows) -> None:
    call: dict[str, Any] = {"kind": "actor_task", "actor_id": ACTOR_ID, "worker": ACTOR}
    found.tasks = [ended(1, name="A.m", **call), ended(2, name="mine", function="A.m", **call)]
    named, own = rows_of(found, [], "n")
    assert (named["name"], named["func_or_class_name"]) == ("me.m", "A.m")
    assert (own["name"], own["func_or_class_name"]) == ("mine", "A.m")


def test_the_creation_of_a_named_actor_carries_its_name(found: SessionRows) -> None:
    found.tasks = [ended(9, name="A.__init__", kind="actor_creation", actor_id=ACTOR_ID, worker=ACTOR)]
    row = only(rows_of(found, [], "n"))
    assert (row["name"], row["func_or_class_name"]) == ("named:A.__init__", "A.__init__")


def test_what_a_task_held_is_what_its_lease_says_and_a_call_holds_nothing_of_its_own(
    found: SessionRows,
) -> None:
    lease = '{"resources": {"CPU": 2}, "pg": "ab", "env": {"env_vars": {"A": "1"}}}'
    found.tasks = [ended(1, lease=lease), ended(2, lease=lease, kind="actor_task", actor_id=ACTOR_ID)]
    task, call = rows_of(found, [], "n")
    assert (task["required_resources"], task["placement_group_id"]) == ({"CPU": 2}, "ab")
    assert task["runtime_env_info"]["serialized_runtime_env"] == '{"env_vars": {"A": "1"}}'
    assert call["required_resources"] == {}


def test_the_error_stands_in_the_row_of_its_attempt(found: SessionRows) -> None:
    found.tasks = [ended(1, ok=False), ended(1, ok=True, attempt=1)]
    found.errors = [
        {"task": task_id(DRIVER, 1).hex(), "attempt": 0, "type": "TASK_EXECUTION_EXCEPTION", "message": "why"}
    ]
    first, second = rows_of(found, [], "n")
    assert (first["state"], first["error_message"]) == ("FAILED", "why")
    assert (second["state"], second["error_message"], second["error_type"]) == ("FINISHED", None, None)


def test_an_attempt_that_was_ended_on_purpose_has_not_failed_unless_it_is_tried_again(
    found: SessionRows,
) -> None:
    found.tasks = [ended(1, ok=False), ended(2, ok=False), ended(2, ok=False, attempt=1)]
    found.errors = [
        {
            "task": task_id(DRIVER, number).hex(),
            "attempt": 0,
            "type": kind,
            "message": "why",
            "in_order": True,
        }
        for number, kind in ((1, "TASK_CANCELLED"), (2, "WORKER_DIED"))
    ]
    cancelled, tried_again, _ = rows_of(found, [], "n")
    assert (cancelled["state"], cancelled["error_type"]) == ("FINISHED", None)
    assert cancelled["events"][-1]["state"] == "FINISHED"
    assert (tried_again["state"], tried_again["error_type"]) == ("FAILED", "WORKER_DIED")


def test_a_call_that_ended_its_actor_in_order_is_finished_whatever_its_owner_noted(
    found: SessionRows,
) -> None:
    call: dict[str, Any] = {"kind": "actor_task", "actor_id": ACTOR_ID, "worker": ACTOR}
    found.tasks = [ended(1, **call), ended(1, ok=False, lost=True, **call)]
    found.failures = [told(1, "", error="ACTOR_DIED", message="it is dead", end_s=4.0)]
    row = only(rows_of(found, [], "n"))
    assert (row["state"], row["error_type"], row["error_message"]) == ("FINISHED", None, None)


def test_a_retry_is_created_when_the_attempt_before_it_ended(found: SessionRows) -> None:
    found.tasks = [ended(1, ok=False), ended(1, attempt=1)]
    first, second = rows_of(found, [], "n")
    assert first["creation_time_ms"] < first["end_time_ms"] == second["creation_time_ms"]
    assert second["events"][0] == {"state": "PENDING_ARGS_AVAIL", "created_ms": float(first["end_time_ms"])}


def test_a_task_that_no_worker_wrote_of_has_a_row_by_its_owner(found: SessionRows) -> None:
    found.failures = [told(1, "", error="TASK_CANCELLED", message="cancelled", end_s=4.0)]
    row = only(rows_of(found, [], "n"))
    assert (row["state"], row["error_type"], row["error_message"]) == (
        "FAILED",
        "TASK_CANCELLED",
        "cancelled",
    )
    assert (row["worker_id"], row.get("start_time_ms")) == (None, None)
    assert row["end_time_ms"] == 4000


def test_a_task_whose_argument_failed_has_the_text_of_that_error(found: SessionRows) -> None:
    origin = task_id(DRIVER, 1).hex()
    found.tasks = [ended(1, ok=False)]
    found.errors = [{"task": origin, "attempt": 0, "type": "TASK_EXECUTION_EXCEPTION", "message": "why"}]
    found.failures = [
        told(2, "", error="TASK_EXECUTION_EXCEPTION", message="", end_s=4.0, origin=origin, waited=True)
    ]
    row = rows_of(found, [], "n")[1]
    assert row["error_message"] == "why"
    assert [event["state"] for event in row["events"]] == ["PENDING_ARGS_AVAIL", "FAILED"]


def test_a_sent_task_runs_if_its_workers_ring_says_so(found: SessionRows) -> None:
    found.begun[task_id(DRIVER, 1)] = (WORKER, 2, 4.0)
    row = only(rows_of(found, [told(1, "SUBMITTED_TO_WORKER", worker=WORKER.hex())], "n"))
    assert (row["state"], row["worker_id"], row["worker_pid"]) == ("RUNNING", WORKER.hex(), 2)
    assert row["start_time_ms"] == 4000


def test_a_sent_task_that_is_not_begun_waits_for_a_worker_but_a_call_waits_at_its_own(
    found: SessionRows,
) -> None:
    told_ = [
        told(1, "SUBMITTED_TO_WORKER", worker=WORKER.hex()),
        told(2, "SUBMITTED_TO_WORKER", worker=ACTOR.hex(), kind="actor_task", actor=ACTOR_ID.hex()),
    ]
    task, call = rows_of(found, told_, "n")
    assert (task["state"], task["worker_id"]) == ("PENDING_NODE_ASSIGNMENT", None)
    assert (call["state"], call["worker_id"], call["node_id"]) == ("SUBMITTED_TO_WORKER", ACTOR.hex(), "n")


def test_a_call_in_an_actor_that_runs_several_waits_for_its_turn_until_it_has_begun(
    found: SessionRows,
) -> None:
    waits = "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"
    call = told(2, waits, worker=ACTOR.hex(), kind="actor_task", actor=ACTOR_ID.hex())
    row = only(rows_of(found, [call], "n"))
    assert (row["state"], row["worker_id"]) == (waits, ACTOR.hex())
    assert [event["state"] for event in row["events"]][-2:] == ["SUBMITTED_TO_WORKER", waits]
    found.begun[task_id(DRIVER, 2)] = (ACTOR, 3, 4.0)
    assert only(rows_of(found, [call], "n"))["state"] == "RUNNING"


def test_calls_that_run_beside_each_other_are_told_by_their_worker(found: SessionRows) -> None:
    call = told(2, "SUBMITTED_TO_WORKER", worker=ACTOR.hex(), kind="actor_task", actor=ACTOR_ID.hex())
    runs = {"running": True, "task": call["task"], "start_s": 5.0, "worker": ACTOR.hex(), "pid": 3}
    row = only(rows_of(found, [runs, call], "n"))
    assert (row["state"], row["start_time_ms"], row["worker_pid"]) == ("RUNNING", 5000, 3)


def test_a_record_of_the_end_counts_more_than_what_the_owner_does_not_know_yet(found: SessionRows) -> None:
    found.tasks = [ended(1)]
    assert only(rows_of(found, [told(1, "SUBMITTED_TO_WORKER")], "n"))["state"] == "FINISHED"
