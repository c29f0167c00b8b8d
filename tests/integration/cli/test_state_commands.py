"""`sundog list`, `get`, `summary` and `logs` on a running session, from outside of it."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
import json
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest


def sundog(*arguments: str, code: int = 0) -> str:
    found = subprocess.run(
        [sys.executable, "-m", "sundog.cli", *arguments], capture_output=True, text=True, check=False
    )
    assert found.returncode == code, found.stderr
    return found.stdout if not code else found.stderr


@pytest.fixture
def ran(ray: ModuleType) -> Any:
    @ray.remote
    def says(text: str) -> None:
        print(text)

    ref = says.remote("a line of the task")
    ray.get([ref, says.options(name="other").remote("another line")])
    return ref.task_id().hex()


def test_rows_are_listed_filtered_and_limited(ran: str) -> None:
    [row] = json.loads(sundog("list", "tasks", "--filter", "name=says", "--format", "json"))
    assert (row["task_id"], row["state"]) == (ran, "FINISHED")
    assert len(json.loads(sundog("list", "tasks", "--limit", "1", "--format", "json"))) == 1
    table = sundog("list", "tasks", "-f", "name!=other").splitlines()
    assert len(table) == 2 and ran in table[1]
    assert "required_resources" in sundog("list", "tasks", "--detail")
    assert "There are no placement groups." in sundog("list", "placement-groups")
    assert len(json.loads(sundog("list", "jobs", "--format", "json"))) == 1  # the command is none


def test_one_row_is_shown_with_all_its_columns_and_an_unknown_one_is_refused(ran: str) -> None:
    assert f'task_id: "{ran}"' in sundog("get", "tasks", ran).replace(f"task_id: {ran}", f'task_id: "{ran}"')
    assert "sundog list tasks" in sundog("get", "tasks", "00" * 16, code=1)
    assert "cannot be filtered on" in sundog("list", "tasks", "-f", "nonsense=1", code=1)


def test_counts_are_shown(ran: str) -> None:
    lines = sundog("summary", "tasks").splitlines()
    assert lines[0].startswith("tasks: 2")
    assert any("says" in line and "FINISHED: 1" in line for line in lines)


def test_logs_are_listed_and_shown(ray: ModuleType, ran: str) -> None:
    listed = sundog("logs")
    assert "node.log" in listed and "worker_out:" in listed
    assert sundog("logs", "task", "--id", ran) == "a line of the task\n"
    assert "node" in sundog("logs", "node.log") or sundog("logs", "node.log") == ""
    assert "sundog logs" in sundog("logs", "nothing-like-that", code=1)


def test_without_a_session_the_commands_say_so() -> None:
    assert "no session is running" in sundog("list", "tasks", code=3)
    assert "there is no session, running or ended" in sundog("logs", code=3)
