"""The trace of a session: valid JSON, every task once, arrows that begin and end in slices, windows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog import event_facts, events
from sundog.observe import segments
from sundog.observe.index import Index, opened
from sundog.observe.trace import TraceWindow, pieces, session_bounds

WORKER, DRIVER, NODE = b"\xcd" * 8, b"\xef" * 8, b"n" * 16
NOW = 1_800_000_000.0


def task_id(number: int) -> bytes:
    return DRIVER + number.to_bytes(8, "little")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    (tmp_path / "rings").mkdir()
    worker = events.Ring(str(tmp_path / "rings" / f"{WORKER.hex()}.ring"), 256, "worker")
    driver = events.Ring(str(tmp_path / "rings" / f"{DRIVER.hex()}.ring"), 256, "driver")
    for number in range(10):
        flags = events.FAILED if number == 3 else 0
        worker.write(
            events.TASK, task_id(number), worker.name('f"<x>'), NOW, NOW + number, NOW + number + 0.5, flags
        )
    worker.write(events.GET, task_id(50), worker.name("a.py:9 in f"), NOW + 2.1, NOW + 2.1, NOW + 2.2)
    worker.started(task_id(99), NOW + 20, worker.name("running"))
    event_facts.block(worker, events.GET, task_id(98), worker.name("a.py:7 in f"), task_id(99), NOW + 21)
    driver.write(events.GET, task_id(4), driver.name("a.py:3 in main"), NOW + 4, NOW + 4, NOW + 4.6)
    driver.write(events.READY, task_id(5), 0, NOW, NOW + 1, NOW + 1)
    driver.write(events.PACKET, task_id(4), 3, 6.0, NOW + 2, NOW + 2, 0, 0, 0.0, 100)
    writer = segments.Writer(str(tmp_path), NODE, 1000, 0.0)
    for facts in (
        {
            "fact": "machine",
            "s": NOW + 1,
            "cpu": 0.5,
            "memory_used": 5e6,
            "memory_total": 1e9,
            "store_used": 1e6,
        },
        {"fact": "spill", "s": NOW + 2, "subject": "/disk", "bytes": 10, "count": 2, "seconds": 0.1},
        {
            "fact": "worker",
            "s": NOW + 3,
            "subject": "ab",
            "row": {"pid": 7, "exit_type": "NODE_OUT_OF_MEMORY"},
        },
    ):
        writer.append(segments.FACTS, (json.dumps(facts) + "\n").encode(), b"n" * 8)
    writer.close()
    with opened(str(tmp_path)) as found:
        yield found
    worker.close()
    driver.close()


def trace(index: Index, window: TraceWindow | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads("".join(pieces(index, window)))
    return found


def test_every_task_get_spill_and_end_is_drawn_once(index: Index) -> None:
    drawn = Counter((each["cat"], each["ph"]) for each in trace(index) if "cat" in each)
    assert (drawn["task", "X"], drawn["driver", "X"], drawn["store", "X"], drawn["death", "i"]) == (
        11,
        3,
        1,
        1,
    )
    assert drawn["flow", "s"] == drawn["flow", "f"] == 11  # ten submissions and one get


def test_a_name_is_text_and_rows_are_labelled(index: Index) -> None:
    found = trace(index)
    assert {each["name"] for each in found if each.get("cat") == "task"} == {'f"<x>', "running"}
    labels = [each["args"]["name"] for each in found if each["name"] == "thread_name"]
    assert any(label.startswith("worker pid=") for label in labels)
    assert "node: spills and ends of processes" in labels
    assert {each["name"] for each in found if each["ph"] == "C"} == {"CPU %", "memory MB", "object store MB"}
    [failed] = [each for each in found if each.get("cname")]
    assert failed["args"]["status"] == "FAILED"


def test_what_a_task_waited_for_is_nested(index: Index) -> None:
    waits = [each for each in trace(index) if each.get("cat") == "waiting" and task_id(5).hex() in each["id"]]
    names = [each["name"] for each in waits if each["ph"] == "b"]
    assert names == ['f"<x> waits', "for its arguments", "for its owner", "for its turn"]
    assert [each["ts"] for each in waits if each["ph"] == "b"] == sorted(
        each["ts"] for each in waits if each["ph"] == "b"
    )


def test_arrows_lie_within_slices(index: Index) -> None:
    found = trace(index)
    slices = [each for each in found if each["ph"] == "X"]
    for arrow in (each for each in found if each["ph"] in "sf"):
        assert any(
            each["pid"] == arrow["pid"]
            and each["tid"] == arrow["tid"]
            and each["ts"] - 1 <= arrow["ts"] <= each["ts"] + each["dur"] + 1
            for each in slices
        )


def test_a_window_has_what_touches_it(index: Index) -> None:
    low, high = session_bounds(index)
    assert (low, high) == (NOW, NOW + 21), "a task that has not ended counts to the last moment"
    found = [each for each in trace(index, TraceWindow(NOW + 2.0, NOW + 3.2)) if each.get("cat") == "task"]
    assert len(found) == 2


def test_a_task_that_has_not_ended_is_drawn_to_the_last_known_moment(index: Index) -> None:
    index.db.execute("INSERT INTO machine(at_s, node_id) VALUES(?, ?)", (NOW + 30, NODE))
    [open_] = [each for each in trace(index) if each.get("args", {}).get("status") == "RUNNING"]
    assert (open_["name"], open_["dur"]) == ("running", pytest.approx(10e6))
    assert session_bounds(index)[1] == NOW + 30


def test_a_get_that_has_not_ended_is_drawn_to_the_last_known_moment(index: Index) -> None:
    [open_] = [each for each in trace(index) if each.get("args", {}).get("status") == "not ended"]
    assert (open_["name"], open_["ts"]) == ("get", pytest.approx((NOW + 21) * 1e6))
    assert (open_["args"]["object"], open_["args"]["call_site"]) == (task_id(98).hex(), "a.py:7 in f")
