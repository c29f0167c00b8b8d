"""Columns of the rows: which are there, which may be filtered, and how people read them."""

from __future__ import annotations

import pytest

from sundog.util.state.schema import (
    KINDS,
    ObjectState,
    StateSchema,
    TaskState,
    WorkerState,
    shown_size,
    shown_time,
)


def test_a_row_is_read_by_attribute_and_by_item() -> None:
    row = WorkerState(pid=5)
    row["ip"] = "127.0.0.1"
    assert (row["pid"], row.pid, row.get("ip"), row.get("nothing", 3)) == (5, 5, "127.0.0.1", 3)
    with pytest.raises(KeyError):
        _ = row["nothing"]
    assert row.asdict()["pid"] == 5


def test_details_are_apart_from_what_is_always_there() -> None:
    assert TaskState.base_columns() < TaskState.columns() == TaskState.detail_columns()
    assert "cpu_s" not in TaskState.list_columns(detail=False)
    assert TaskState.list_columns()[0] == "task_id"


def test_long_values_cannot_be_filtered_by() -> None:
    assert "state" in TaskState.filterable_columns() and "events" not in TaskState.filterable_columns()


@pytest.mark.parametrize(("kind", "schema", "key"), [(name, *found) for name, found in KINDS.items()])
def test_every_kind_has_the_column_that_identifies_a_row(
    kind: str, schema: type[StateSchema], key: str
) -> None:
    assert key in schema.base_columns() and schema.filterable_columns() <= schema.columns()


def test_sizes_and_times_are_made_fit_for_people_and_what_is_missing_stays_so() -> None:
    row = ObjectState.humanify({"object_size": 1536, "pid": 3})
    assert row == {"object_size": "1.500 KiB", "pid": 3}
    shown = TaskState.humanify({"start_time_ms": None, "events": [{"state": "RUNNING", "created_ms": 0}]})
    assert shown["start_time_ms"] is None and shown["events"] == [{"state": "RUNNING", "created_ms": ""}]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0.000 B"), (1023, "1023.000 B"), (2**20, "1.000 MiB"), (5 * 2**30, "5.000 GiB")]
)
def test_a_size_is_shown_in_its_unit(size: float, text: str) -> None:
    assert shown_size(size) == text


def test_a_moment_before_time_is_none() -> None:
    assert shown_time(0) == "" and shown_time(86_400_000_000).startswith("1972-")
