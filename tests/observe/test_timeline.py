"""The Chrome trace and the totals per function, from rows made by hand."""

from __future__ import annotations

import doctest
import itertools
import json
from collections import defaultdict
from typing import Any

import pytest

from sundog.observe import timeline
from sundog.observe.timeline import SpanRow, TaskRow, chrome_trace, summarize

DRIVER = b"\xdd" * 8
WORKERS = [bytes([k]) * 8 for k in range(1, 5)]
_ids = itertools.count(1)


def task(
    start: float | None,
    end: float | None,
    *,
    name: str = "f",
    worker: int = 0,
    submit: float = 0.0,
    **more: Any,
) -> TaskRow:
    fields: dict[str, Any] = {"owner_id": DRIVER, "ok": True if end is not None else None, **more}
    return TaskRow(
        next(_ids).to_bytes(16, "little"), name, submit, start, end, WORKERS[worker], 100 + worker, **fields
    )


def slices(trace: list[dict[str, Any]], category: str) -> list[dict[str, Any]]:
    return [event for event in trace if event["ph"] == "X" and event["cat"] == category]


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(timeline).failed == 0


def test_nothing_recorded_is_an_empty_trace() -> None:
    assert chrome_trace([], []) == []


def test_a_task_is_a_complete_event_on_its_workers_row() -> None:
    row = task(1.0, 1.5, submit=0.9, attempt=2)
    trace = chrome_trace([row], [])
    (event,) = slices(trace, "task")
    assert (event["name"], event["ts"], event["dur"], event["tid"]) == ("f", 1_000_000.0, 500_000.0, 100)
    assert event["args"] == {
        "task_id": row.task_id.hex(),
        "name": "f",
        "attempt": 2,
        "status": "FINISHED",
        "submitter": DRIVER.hex(),
        "queued_ms": pytest.approx(100.0),
        "cpu_ms": 0.0,
        "peak_memory_bytes": 0,
    }
    json.dumps(trace)


def test_rows_are_named_and_every_event_is_on_a_named_row() -> None:
    rows = [task(1.0, 2.0, node_id=b"\xaa" * 16), task(1.0, 2.0, worker=1, node_id=b"\xbb" * 16)]
    trace = chrome_trace(rows, [SpanRow("get", 0.5, 2.5, 77, DRIVER, node_id=b"\xaa" * 16)])
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in trace if e["name"] == "process_name"}
    assert sorted(processes.values()) == ["node aaaaaaaa", "node bbbbbbbb"]
    assert {"worker pid=100 01010101", "worker pid=101 02020202", "driver pid=77 dddddddd"} == set(
        threads.values()
    )
    assert {(e["pid"], e["tid"]) for e in trace if e["ph"] != "M"} <= threads.keys()


def test_failed_pending_and_running_tasks_are_told_apart() -> None:
    rows = [task(1.0, 2.0, ok=False, name="bad"), task(None, None, name="waits"), task(1.5, None, worker=1)]
    trace = chrome_trace(rows, [SpanRow("get", 0.0, 4.0, 7, DRIVER)])
    bad, running = slices(trace, "task")
    assert bad["args"]["status"] == "FAILED" and bad["cname"] == "terrible"
    assert running["args"]["status"] == "RUNNING" and running["ts"] + running["dur"] == 4_000_000.0
    assert rows[1].status == "PENDING"


def test_an_arrow_leads_from_the_submitter_to_the_task() -> None:
    row = task(1.0, 1.5, submit=0.25)
    trace = chrome_trace([row], [SpanRow("get", 0.5, 1.5, 77, DRIVER)])
    (start,) = [e for e in trace if e["ph"] == "s"]
    (finish,) = [e for e in trace if e["ph"] == "f"]
    assert start["id"] == finish["id"] and start["cat"] == finish["cat"]
    assert (start["tid"], start["ts"]) == (77, 250_000.0) and (finish["tid"], finish["ts"]) == (
        100,
        1_000_000.0,
    )
    (origin,) = slices(trace, "submit")
    assert origin["tid"] == 77 and origin["ts"] == start["ts"]


def test_a_workers_own_calls_stand_on_its_row() -> None:
    parent = task(1.0, 3.0, name="parent")
    child = task(1.5, 2.0, worker=1, submit=1.2, owner_id=WORKERS[0])
    trace = chrome_trace([parent, child], [SpanRow("get", 1.3, 2.1, 100, WORKERS[0], "x.py:3")])
    (get,) = slices(trace, "driver")
    assert get["tid"] == 100 and get["args"]["detail"] == "x.py:3"
    assert [e["tid"] for e in slices(trace, "submit") if e["name"] == "submit f"] == [100]


def test_phases_lie_inside_their_task() -> None:
    trace = chrome_trace([task(1.0, 2.0, phases=(("fetch", 1.0, 1.2), ("run", 1.2, 2.0)))], [])
    assert [(e["name"], e["tid"]) for e in slices(trace, "phase")] == [("fetch", 100), ("run", 100)]


def test_tasks_that_overlap_in_one_worker_never_share_a_row() -> None:
    rows = [task(i * 0.1, i * 0.1 + 0.35, kind="actor_task") for i in range(50)]
    rows += [task(1.0 + i, 1.5 + i, worker=1) for i in range(5)]
    trace = chrome_trace(rows, [])
    lanes: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for event in slices(trace, "actor_task") + slices(trace, "task"):
        lanes[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len(lanes) == 5
    for stretches in lanes.values():
        stretches.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(stretches))


def test_events_are_in_order_of_time_after_the_names() -> None:
    trace = chrome_trace([task(3.0, 4.0), task(1.0, 2.0)], [SpanRow("put", 2.0, 2.1, 7, DRIVER)])
    times = [event["ts"] for event in trace]
    assert times == sorted(times)


def test_a_summary_has_totals_percentiles_and_queue_time() -> None:
    rows = [task(i, i + (i + 1) / 10, submit=i - 0.5) for i in range(10)]
    rows += [task(0.0, 0.01, name="g", ok=False), task(5.0, None, name="g"), task(None, None, name="h")]
    f, g = summarize(rows)
    assert (f.name, f.count, f.failed) == ("f", 10, 0)
    assert f.total_s == pytest.approx(5.5) and f.mean_s == pytest.approx(0.55)
    assert (
        f.p50_s == pytest.approx(0.55) and f.p95_s == pytest.approx(0.955) and f.max_s == pytest.approx(1.0)
    )
    assert f.queue_mean_s == pytest.approx(0.5)
    assert (g.name, g.count, g.failed) == ("g", 1, 1)
