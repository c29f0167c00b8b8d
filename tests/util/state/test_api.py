"""The module that Ray has all verbs of the state API in; ids that can be none."""

from __future__ import annotations

import pytest

from sundog.util import state
from sundog.util.state import api
from sundog.util.state.client import StateApiClient
from sundog.util.state.common import ListApiOptions, StateResource
from sundog.util.state.exception import RayStateApiException


def test_every_verb_is_in_the_module_api_too() -> None:
    assert all(getattr(api, name) is getattr(state, name) for name in state.__all__)
    with pytest.raises(AttributeError, match="list_trees"):
        _ = api.list_trees


@pytest.mark.parametrize("wanted", ["aa", "no id", ""])
def test_what_can_be_no_id_is_refused_without_asking(wanted: str) -> None:
    for verb in (api.get_task, api.get_actor, api.get_node):
        with pytest.raises(RayStateApiException, match="hexadecimal"):
            verb(wanted)


def test_programs_are_listed_as_tasks_only_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        {"job_id": "01000000", "status": "RUNNING", "driver_info": {"pid": "7"}, "end_time": 0},
        {"job_id": "02000000", "status": "SUCCEEDED", "driver_info": None, "end_time": 5},
    ]
    monkeypatch.setattr(api, "ask", lambda kind, *_: jobs if kind == "jobs" else [])
    monkeypatch.setattr(api, "ask_tasks", lambda *_: ([], 0))
    client = StateApiClient()
    assert client.list(StateResource.TASKS, ListApiOptions()) == []
    rows = client.list(StateResource.TASKS, ListApiOptions(exclude_driver=False, detail=True))
    assert [(row["type"], row["state"], row["worker_pid"], row["end_time_ms"]) for row in rows] == [
        ("DRIVER_TASK", "RUNNING", 7, None),
        ("DRIVER_TASK", "FINISHED", None, 5),
    ]
    assert rows[0]["task_id"] == "f" * 40 + "01000000"  # the parent of what this program submits
    running = ListApiOptions(exclude_driver=False, filters=[("state", "=", "RUNNING")])
    assert len(client.list(StateResource.TASKS, running)) == 1
