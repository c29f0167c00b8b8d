"""`sundog list`: what is asked of the state API, and how its rows are shown."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from sundog.util import state
from sundog.util.state.schema import TaskState

Run = Callable[..., Result]
module = importlib.import_module("sundog.cli.list")


class FakeList:
    """`list_tasks`: answers with these rows, and notes how it was called."""

    def __init__(self, rows: list[TaskState]) -> None:
        self.rows = rows
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> list[TaskState]:
        self.calls.append((args, kwargs))
        return self.rows


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> FakeList:
    fake = FakeList(
        [TaskState(task_id="ab" * 16, name="says", state="FINISHED", required_resources={"CPU": 1.0})]
    )
    monkeypatch.setattr(module, "address_of", lambda _session, _address: "here")
    for name in ("list_tasks", "list_placement_groups"):
        monkeypatch.setattr(state, name, fake)
    return fake


def test_filters_limit_and_detail_are_passed_on(listed: FakeList, sundog: Run) -> None:
    assert sundog("list", "tasks", "-f", "state=FAILED", "-f", "name!=f", "--limit", "3").exit_code == 0
    [(args, kwargs)] = listed.calls
    assert args == ("here", [("state", "=", "FAILED"), ("name", "!=", "f")])
    assert (kwargs["limit"], kwargs["detail"]) == (3, False)


def test_a_table_leaves_out_what_only_detail_shows(listed: FakeList, sundog: Run) -> None:
    table = sundog("list", "tasks").output
    assert "says" in table and "required_resources" not in table
    detailed = sundog("list", "tasks", "--detail").output
    assert detailed.startswith("---\n- task_id") and 'required_resources: {"CPU": 1.0}' in detailed


def test_a_program_gets_json_also_of_no_rows(listed: FakeList, sundog: Run) -> None:
    assert json.loads(sundog("list", "tasks", "--json").output)[0]["name"] == "says"
    listed.rows = []
    assert json.loads(sundog("list", "tasks", "--json").output) == []


def test_no_rows_are_said_in_words(listed: FakeList, sundog: Run) -> None:
    listed.rows = []
    assert sundog("list", "placement-groups").output == "There are no placement groups.\n"
    assert (
        sundog("list", "placement_groups", "-f", "name=x").output
        == "There are no placement groups like that.\n"
    )


@pytest.mark.parametrize("arguments", [("task",), ("tasks", "-f", "state"), ("tasks", "--format", "csv")])
def test_what_cannot_be_understood_is_refused_before_anything_is_asked(
    listed: FakeList, sundog: Run, arguments: tuple[str, ...]
) -> None:
    assert sundog("list", *arguments).exit_code == 2
    assert listed.calls == []
