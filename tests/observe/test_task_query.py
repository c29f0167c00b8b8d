"""Rows of tasks by filters: the same whether SQL or Python decides; what an ended session was doing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog import events
from sundog.observe import index as module
from sundog.observe.index import Index, opened
from sundog.observe.task_query import Scene, TaskQuery
from sundog.util.state.api import matches

WORKER, DRIVER = b"\xcd" * 8, b"\xef" * 8
NOW = 1_800_000_000.0


def task_id(number: int, owner: bytes = DRIVER) -> bytes:
    return owner + number.to_bytes(8, "little")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    (tmp_path / "rings").mkdir()
    worker = events.Ring(str(tmp_path / "rings" / f"{WORKER.hex()}.ring"), 256, "worker", b"\1\0\0\0")
    driver = events.Ring(str(tmp_path / "rings" / f"{DRIVER.hex()}.ring"), 256, "driver", b"\1\0\0\0")
    names = [worker.name("f"), worker.name("g", "", "own")]
    for number in range(20):
        flags = events.FAILED if number % 5 == 0 else 0
        start = NOW + number
        worker.write(events.TASK, task_id(number), names[number % 2], NOW, start, start + 0.5, flags)
        if flags:
            worker.note("error", task=task_id(number).hex(), attempt=0, type="T", message=f"no {number}")
    worker.write(events.TASK, task_id(1, WORKER), names[0], NOW + 3.25, NOW + 30, NOW + 31, events.HIDDEN)
    worker.write(events.TASK, task_id(2, WORKER), names[0], NOW + 3.25, NOW + 30, NOW + 31)
    worker.started(task_id(99), NOW + 40, names[0])
    site = driver.name("a.py:3 in main", "@f")
    driver.write(events.SITE, task_id(4), site, NOW, NOW, NOW)
    driver.note(
        "failed", task=task_id(50).hex(), attempt=0, owner=DRIVER.hex(), name="h", function="h", kind="task", actor="",
        resources={}, pg="", submit_s=NOW, end_s=NOW + 1, waited=True, error="TASK_CANCELLED", message="never",
        origin="",
    )  # fmt: skip
    with opened(str(tmp_path)) as found:
        yield found
    worker.close()
    driver.close()


def rows(
    index: Index, *filters: tuple[str, str, Any], live: bool = True, limit: int = 100
) -> tuple[list[Any], int]:
    return TaskQuery(index, Scene("aa", "/s", live), matches).rows(filters, limit, (), detail=True)


FILTERS: list[tuple[str, str, Any]] = [
    ("state", "=", "FAILED"),
    ("state", "!=", "failed"),
    ("state", "=", "RUNNING"),
    ("name", "=", "F"),
    ("func_or_class_name", "=", "own"),
    ("type", "!=", "ACTOR_TASK"),
    ("worker_id", "=", WORKER.hex()),
    ("job_id", "=", "01000000"),
    ("task_id", "=", task_id(3).hex()),
    ("task_id", "=", "nonsense"),
    ("attempt_number", "=", "0"),
    ("error_type", "=", "TASK_CANCELLED"),
    ("parent_task_id", "=", task_id(3).hex()),
    ("parent_task_id", "=", "f" * 40 + "01000000"),
    ("language", "=", "python"),
    ("node_id", "=", "aa"),
]


@pytest.mark.parametrize("wanted", FILTERS, ids=lambda wanted: "".join(map(str, wanted))[:30])
def test_sql_and_python_choose_the_same_rows(index: Index, wanted: tuple[str, str, Any]) -> None:
    everything, _ = rows(index)
    expected = [row["task_id"] for row in everything if matches(row, [wanted])]
    if wanted[0] == "node_id":
        expected = []  # these rings were copied by no node
    found, total = rows(index, wanted)
    assert [row["task_id"] for row in found] == expected
    assert total == len(expected)


def test_a_limit_cuts_and_the_total_does_not(index: Index) -> None:
    found, total = rows(index, ("state", "=", "FINISHED"), limit=3)
    assert (len(found), total) == (3, 17)


def test_errors_sites_and_parents_belong_to_their_rows(index: Index) -> None:
    everything, total = rows(index)
    assert total == 22
    by_id = {row["task_id"]: row for row in everything}
    assert by_id[task_id(10).hex()]["error_message"] == "no 10"
    assert by_id[task_id(50).hex()]["error_type"] == "TASK_CANCELLED"
    assert by_id[task_id(4).hex()]["call_site"] == "a.py:3 in main"
    assert by_id[task_id(2).hex()]["call_site"] is None
    assert by_id[task_id(2, WORKER).hex()]["parent_task_id"] == task_id(3).hex()
    assert task_id(1, WORKER).hex() not in by_id


def test_an_answer_is_of_one_moment_though_another_reader_brings_the_index_up_to_date_meanwhile(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = task_id(60)
    ring = events.Ring(f"{index.session_path}/rings/{'12' * 8}.ring", 64, "worker", b"\1\0\0\0")
    told = {
        "task": ended.hex(), "owner": DRIVER.hex(), "attempt": 0, "name": "late", "function": "late", "kind": "task",
        "actor": "", "resources": {}, "pg": "", "submit_s": NOW, "state": "PENDING_NODE_ASSIGNMENT", "missing": [],
        "parent": "", "worker": "12" * 8, "pid": 7, "job": "01000000",
    }  # fmt: skip
    seen_by_the_other: list[Any] = []

    def match_while_it_ends(row: Any, filters: Any) -> bool:
        if not seen_by_the_other:
            ring.write(events.TASK, ended, ring.name("late"), NOW, NOW + 1, NOW + 2)
            with opened(index.session_path) as other:
                seen_by_the_other.extend(other.rows("SELECT state FROM tasks WHERE name = 'late'"))
        return matches(row, filters)

    monkeypatch.setattr(module, "_BUSY_S", 0.0)
    before = os.stat(f"{index.session_path}/records/{module.FILE}").st_ino
    with index.standing_still():
        query = TaskQuery(index, Scene("aa", "/s", True), match_while_it_ends)
        found, total = query.rows([("name", "=", "late")], 10, [told], detail=False)
    assert seen_by_the_other == [("FINISHED",)]
    assert [(row["task_id"], row["state"]) for row in found] == [(ended.hex(), "PENDING_NODE_ASSIGNMENT")]
    assert total == 1
    assert (
        os.stat(f"{index.session_path}/records/{module.FILE}").st_ino == before
    )  # the other did not take it for broken
    ring.close()


def test_counts_are_those_of_the_rows(index: Index) -> None:
    counted = TaskQuery(index, Scene("aa", "/s", True), matches).counts(())
    found = {(each["name"], each["state"]): each["count"] for each in counted}
    assert found == {
        ("f", "FINISHED"): 9,
        ("f", "FAILED"): 2,
        ("g", "FINISHED"): 8,
        ("g", "FAILED"): 2,
        ("h", "FAILED"): 1,
    }


def test_an_ended_session_tells_what_was_running(index: Index) -> None:
    found, _ = rows(index, ("error_type", "=", "WORKER_DIED"), live=False)
    [row] = found
    assert (row["task_id"], row["name"], row["state"]) == (task_id(99).hex(), "f", "FAILED")
    assert "running when its session ended" in row["error_message"]


def test_an_attempt_before_the_last_tells_how_its_process_ended(index: Index) -> None:
    index.db.execute("UPDATE attempts SET flags = flags | 17 WHERE task_id = ?", (task_id(7),))
    row = '{"row": {"exit_detail": "it was ended by SIGKILL."}}'
    index.db.execute("INSERT INTO facts VALUES(1.0, 'worker', x'', ?, ?)", (WORKER.hex(), row))
    [found], _ = rows(index, ("task_id", "=", task_id(7).hex()))
    assert (found["error_type"], found["error_message"]) == ("WORKER_DIED", "it was ended by SIGKILL.")
