"""`StateApiClient`: which call of the state API each of its methods is."""

from __future__ import annotations

from typing import Any

import pytest

from sundog.util.state import api, summary
from sundog.util.state.client import StateApiClient
from sundog.util.state.common import ListApiOptions, StateResource, SummaryResource


class Calls:
    """Notes the calls of functions that it stands for; each answers with its own name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, *names: str) -> None:
        self.made: list[tuple[str, tuple[Any, ...]]] = []
        for name in names:
            monkeypatch.setattr(module, name, self._stand_in(name))

    def _stand_in(self, name: str) -> Any:
        def call(*args: Any, **_: Any) -> Any:
            self.made.append((name, args))
            return [name, name]

        return call


def test_rows_come_from_the_session_at_the_address_and_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch, api, "_list", "list_driver_tasks", "list_cluster_events")
    client: Any = StateApiClient("somewhere")
    options = ListApiOptions(limit=3, filters=[("name", "=", "f")])
    assert client.list(StateResource.ACTORS, options) == ["_list", "_list"]
    assert {"actors", "somewhere"} <= {each for each in calls.made[0][1] if isinstance(each, str)}
    assert [("name", "=", "f")] in calls.made[0][1]
    assert client.list(StateResource.CLUSTER_EVENTS, options) == ["list_cluster_events"] * 2


@pytest.mark.parametrize(("exclude", "count"), [(True, 2), (False, 3)])
def test_the_drivers_own_tasks_come_first_if_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, exclude: bool, count: int
) -> None:
    Calls(monkeypatch, api, "_list", "list_driver_tasks")
    rows: list[Any] = StateApiClient().list(
        StateResource.TASKS, ListApiOptions(limit=3, exclude_driver=exclude)
    )
    assert len(rows) == count and (rows[0] == "list_driver_tasks") is not exclude


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (StateResource.TASKS, "get_task"),
        (StateResource.OBJECTS, "get_objects"),
        (StateResource.JOBS, "get_job"),
        (StateResource.WORKERS, "_one"),
    ],
)
def test_one_row_is_looked_up_as_its_kind_needs_it(
    monkeypatch: pytest.MonkeyPatch, resource: StateResource, name: str
) -> None:
    calls = Calls(monkeypatch, api, "get_task", "get_objects", "get_job", "_one")
    StateApiClient("somewhere").get(resource, "ab")
    [(called, args)] = calls.made
    assert called == name and "ab" in args and "somewhere" in args


def test_a_summary_is_that_of_its_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch, summary, "summarize_tasks", "summarize_actors", "summarize_objects")
    for resource in SummaryResource:
        StateApiClient("somewhere").summary(resource)
    assert {name for name, _ in calls.made} == {"summarize_tasks", "summarize_actors", "summarize_objects"}
