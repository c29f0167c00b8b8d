"""`sundog summary`: counts in words, and all of it for programs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from sundog.cli import summary
from sundog.util import state

Run = Callable[..., Result]

FOUND = {
    "cluster": {
        "summary": {
            "zip": {
                "func_or_class_name": "zip",
                "type": "NORMAL_TASK",
                "state_counts": {"FINISHED": 2},
                "usage": {},
            },
            "add": {
                "func_or_class_name": "add",
                "type": "NORMAL_TASK",
                "state_counts": {"FAILED": 1, "RUNNING": 4},
                "usage": {"cpu_s": 3.0},
            },
        },
        "total_tasks": 7,
        "total_actor_tasks": 0,
        "total_size_mb": 1.23456789,
        "summary_by": "func_name",
    }
}


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "address_of", lambda _session, _address: "here")
    monkeypatch.setattr(state, "summarize_tasks", lambda _address, _timeout, **_: FOUND)


def test_the_totals_stand_first_and_then_a_line_for_each_name(sundog: Run) -> None:
    lines = sundog("summary", "tasks").output.splitlines()
    assert lines[0] == "tasks: 7, actor tasks: 0, size mb: 1.23457"
    assert [line.split()[1] for line in lines[2:]] == ["add", "zip"]
    assert "FAILED: 1, RUNNING: 4" in lines[2]
    assert "cpu_s" not in "".join(lines)  # use is for programs


def test_a_program_gets_everything(sundog: Run) -> None:
    [whole] = json.loads(sundog("summary", "tasks", "--json").output)
    assert whole == FOUND["cluster"]
    assert "usage" in sundog("summary", "tasks", "--format", "yaml").output


def test_only_tasks_actors_and_objects_are_counted(sundog: Run) -> None:
    done = sundog("summary", "workers")
    assert done.exit_code == 2 and "tasks, actors, objects" in done.output
