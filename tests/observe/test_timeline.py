"""On which row of the trace a task, a get and a submission are drawn, from rows made by hand."""

from __future__ import annotations

import itertools
from collections import defaultdict

from sundog.observe.timeline import SpanRow, TaskRow, TraceNumbers

DRIVER = b"\xdd" * 8
WORKERS = [bytes([k]) * 8 for k in range(1, 5)]
_ids = itertools.count(1)


def task(
    start: float | None,
    end: float | None,
    *,
    worker: int = 0,
    ok: bool | None = True,
    node_id: bytes = b"",
) -> TaskRow:
    task_id = next(_ids).to_bytes(16, "little")
    return TaskRow(task_id, "f", 0.0, start, end, WORKERS[worker], 100 + worker, DRIVER, ok, node_id=node_id)


def labels(board: TraceNumbers, kind: str) -> dict[tuple[object, object], object]:
    found = {}
    for event in board.names():
        args = event["args"]
        if event["name"] == kind and isinstance(args, dict):
            found[event["pid"], event["tid"]] = args["name"]
    return found


def test_rows_are_named_and_every_event_is_on_a_named_row() -> None:
    board = TraceNumbers()
    rows = [task(1.0, 2.0, node_id=b"\xaa" * 16), task(1.0, 2.0, worker=1, node_id=b"\xbb" * 16)]
    places = {(board.process(row.node_id), board.lane_for_task(row, 2.0)) for row in rows}
    places.add(board.lane_for_call(SpanRow("get", 0.5, 2.5, 77, DRIVER, node_id=b"\xaa" * 16)))
    assert sorted(map(str, labels(board, "process_name").values())) == ["node aaaaaaaa", "node bbbbbbbb"]
    threads = labels(board, "thread_name")
    assert set(threads.values()) == {
        "worker pid=100 01010101",
        "worker pid=101 02020202",
        "driver pid=77 dddddddd",
    }
    assert places <= threads.keys()


def test_failed_pending_and_running_tasks_are_told_apart() -> None:
    rows = [task(1.0, 2.0), task(1.0, 2.0, ok=False), task(None, None), task(1.5, None)]
    assert [row.status for row in rows] == ["FINISHED", "FAILED", "PENDING", "RUNNING"]


def test_a_submission_stands_on_the_row_of_its_process() -> None:
    board = TraceNumbers(home=lambda owner: ("", 77, b"") if owner == DRIVER else ("", 0, b""))
    row = task(1.0, 1.5)
    assert board.lane_for_task(row, 1.5) == 100
    assert board.row_of_owner(DRIVER) == (board.process(b""), 77)
    assert board.row_of_owner(WORKERS[0]) == (board.process(b""), 100)


def test_a_workers_own_calls_stand_on_its_row() -> None:
    board = TraceNumbers()
    board.lane_for_task(task(1.0, 3.0), 3.0)
    assert board.lane_for_call(SpanRow("get", 1.3, 2.1, 100, WORKERS[0])) == (board.process(b""), 100)


def test_calls_of_a_worker_that_runs_several_tasks_have_a_row_of_their_own() -> None:
    board = TraceNumbers()
    tids = {board.lane_for_task(task(1.0, 3.0), 3.0) for _ in range(2)}
    _, row = board.lane_for_call(SpanRow("get", 1.3, 2.1, 100, WORKERS[0]))
    assert len(tids) == 2 and row not in tids
    assert labels(board, "thread_name")[1, row] == "worker pid=100 calls 01010101"


def test_tasks_that_overlap_in_one_worker_never_share_a_row() -> None:
    rows = [task(i * 0.1, i * 0.1 + 0.35) for i in range(50)]
    rows += [task(1.0 + i, 1.5 + i, worker=1) for i in range(5)]
    board = TraceNumbers()
    lanes: dict[int, list[TaskRow]] = defaultdict(list)
    for row in rows:
        lanes[board.lane_for_task(row, row.end_s or 0.0)].append(row)
    assert len(lanes) == 5
    for drawn in lanes.values():
        assert all((a.end_s or 0.0) <= (b.start_s or 0.0) for a, b in itertools.pairwise(drawn))
