"""Tasks as a tree of who submitted what."""

from __future__ import annotations

from typing import Any

from sundog.util.state.common import ListApiOptions, TaskSummaries
from sundog.util.state.lineage import DRIVER_TASK_ID_PREFIX, tree_of

DRIVER = DRIVER_TASK_ID_PREFIX + "01000000"


def task(task_id: str, parent: str | None = DRIVER, **facts: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"name": "f", "type": "NORMAL_TASK", "state": "FINISHED", "creation_time_ms": 10}
    row |= {"task_id": task_id, "parent_task_id": parent, "actor_id": None, **facts}
    return row | {"func_or_class_name": facts.get("function", row["name"])}


def test_a_task_stands_below_the_one_that_submitted_it_whatever_the_order_of_rows() -> None:
    [root] = tree_of([task("b", "a", name="inner", creation_time_ms=5), task("a", name="outer")], [])
    assert (root.name, [child.name for child in root.children]) == ("outer", ["inner"])
    assert root.state_counts == {"FINISHED": 2}
    assert root.timestamp == 5  # as old as the oldest thing below it
    assert root.link is not None and root.link.id == "a"


def test_siblings_of_one_name_are_a_group_and_one_alone_is_itself() -> None:
    group, single = tree_of([task("a"), task("b", creation_time_ms=3), task("c", name="g")], [])
    assert (group.type, group.key, group.timestamp, len(group.children)) == ("GROUP", "f", 3, 2)
    assert (single.type, single.key) == ("NORMAL_TASK", "c")
    assert group.link is None


def test_calls_stand_below_their_actor_and_the_actor_below_its_creator() -> None:
    rows = [
        task("t", name="makes"),
        task("i", "t", type="ACTOR_CREATION_TASK", name="A.__init__", actor_id="x"),
        task("c", DRIVER, type="ACTOR_TASK", name="A.m", actor_id="x", state="RUNNING"),
    ]
    [root] = tree_of(rows, [])
    [actor] = root.children
    assert (actor.type, actor.name, actor.key) == ("ACTOR", "A", "actor:x")
    assert [child.key for child in actor.children] == ["c", "i"]  # what runs comes first
    assert (
        tree_of(rows, [{"actor_id": "x", "repr_name": "me", "class_name": "A"}])[0].children[0].name == "me"
    )


def test_what_stands_below_an_unknown_task_is_left_out_but_counted() -> None:
    found = TaskSummaries.to_summary_by_lineage(tasks=[task("a", "gone"), task("b")], actors=[])
    assert isinstance(found.summary, list)
    assert [each.key for each in found.summary] == ["b"]
    assert (found.total_tasks, found.summary_by) == (2, "lineage")


def test_what_failed_comes_before_what_is_done_and_a_creation_before_calls_of_its_time() -> None:
    rows = [
        task("d", name="done", creation_time_ms=1),
        task("e", name="failed", state="FAILED"),
        task("p", name="waits", state="PENDING_NODE_ASSIGNMENT"),
    ]
    assert [each.name for each in tree_of(rows, [])] == ["waits", "failed", "done"]


def test_filters_that_contradict_each_other_are_told() -> None:
    import pytest

    with pytest.warns(UserWarning, match="at once"):
        assert ListApiOptions(filters=[("a", "=", 1), ("a", "=", 2)]).has_conflicting_filters()
    assert not ListApiOptions(filters=[("a", "=", 1), ("a", "!=", 2)]).has_conflicting_filters()
    with pytest.raises(ValueError, match="predicate"):
        ListApiOptions(filters=[("a", ">", 1)])
