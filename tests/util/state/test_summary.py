"""Summaries: counts over rows."""

from __future__ import annotations

from sundog.observe.usage import Usage
from sundog.util.state.summary import MIB, count_actors, count_objects, count_tasks

ONE = Usage(count=1).figures()


def task(name: str, state: str, kind: str = "NORMAL_TASK", **more: object) -> dict[str, object]:
    return {"name": name, "state": state, "type": kind, **more}


def test_tasks_are_counted_by_name_and_state_and_by_kind() -> None:
    rows = [
        task("f", "FINISHED"),
        task("f", "FAILED"),
        task("f", "FINISHED", count=10),
        task("A.m", "RUNNING", "ACTOR_TASK"),
        task("A.__init__", "FINISHED", "ACTOR_CREATION_TASK"),
    ]
    found = count_tasks(rows)
    assert found["summary"]["f"]["state_counts"] == {"FINISHED": 11, "FAILED": 1}
    assert (found["total_tasks"], found["total_actor_tasks"], found["total_actor_scheduled"]) == (12, 1, 1)


def test_usage_stands_beside_the_function_that_it_is_of() -> None:
    found = count_tasks([task("f", "FINISHED"), task("g", "FINISHED")], {"f": ONE})["summary"]
    assert found["f"]["usage"] == ONE and "usage" not in found["g"]


def test_a_task_without_a_name_goes_by_its_function() -> None:
    found = count_tasks([task("", "FINISHED", func_or_class_name="h")])
    assert list(found["summary"]) == ["h"]


def test_actors_are_counted_by_class_and_their_usage_is_found_by_the_last_part_of_its_name() -> None:
    rows = [
        {"class_name": "main.<locals>.Model", "state": "ALIVE"},
        {"class_name": "main.<locals>.Model", "state": "DEAD"},
        {"class_name": "Other", "state": "ALIVE"},
    ]
    found = count_actors(rows, {"Model": ONE})
    model = found["summary"]["main.<locals>.Model"]
    assert model["state_counts"] == {"ALIVE": 1, "DEAD": 1} and model["usage"] == ONE
    assert found["total_actors"] == 3 and "usage" not in found["summary"]["Other"]


def reference(site: str, size: int, pid: int, kind: str = "LOCAL_REFERENCE") -> dict[str, object]:
    return {
        "call_site": site, "object_size": size, "pid": pid, "ip": "127.0.0.1", "task_status": "FINISHED",
        "attempt_number": 1, "reference_type": kind,
    }  # fmt: skip


def test_objects_are_measured_by_the_line_that_made_them() -> None:
    rows = [
        reference("a.py:1", MIB, 1),
        reference("a.py:1", 3 * MIB, 2),
        reference("b.py:2", -1, 1, "PINNED"),
    ]
    found = count_objects(rows)
    first = found["summary"]["a.py:1"]
    assert (first["total_objects"], first["total_size_mb"], first["total_num_workers"]) == (2, 4.0, 2)
    assert found["summary"]["b.py:2"]["total_size_mb"] == 0, "a size that is not known yet counts for nothing"
    assert (found["total_objects"], found["total_size_mb"], found["callsite_enabled"]) == (3, 4.0, True)


def test_nothing_to_count_is_a_summary_too() -> None:
    assert (
        count_tasks([])["total_tasks"]
        == 0
        == count_actors([])["total_actors"]
        == count_objects([])["total_objects"]
    )
