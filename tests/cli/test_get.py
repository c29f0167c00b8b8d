"""`sundog get`: one row with all its columns, or a word that there is none."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable

import pytest
from click.testing import Result

from sundog.util import state
from sundog.util.state.exception import RayStateApiException, ServerUnavailable
from sundog.util.state.schema import PlacementGroupState, TaskState

Run = Callable[..., Result]
module = importlib.import_module("sundog.cli.get")


@pytest.fixture(autouse=True)
def _somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "address_of", lambda _session, _address: "here")


def test_each_attempt_of_a_task_is_shown_in_full(monkeypatch: pytest.MonkeyPatch, sundog: Run) -> None:
    asked: list[tuple[object, ...]] = []

    def get_task(*args: object) -> list[TaskState]:
        asked.append(args)
        return [TaskState(task_id="t", attempt_number=0), TaskState(task_id="t", attempt_number=1)]

    monkeypatch.setattr(state, "get_task", get_task)
    shown = sundog("get", "tasks", "t", "--timeout", "5").output
    assert asked == [("t", "here", 5)]
    assert shown.count("- task_id: t") == 2 and "required_resources" in shown  # a column of --detail


def test_a_resource_of_two_words_may_be_written_either_way(
    monkeypatch: pytest.MonkeyPatch, sundog: Run
) -> None:
    row = PlacementGroupState(placement_group_id="pg", name="trainers")
    monkeypatch.setattr(state, "get_placement_group", lambda *_: row)
    for name in ("placement-groups", "placement_groups"):
        [shown] = json.loads(sundog("get", name, "pg", "--json").output)
        assert shown["name"] == "trainers"


@pytest.mark.parametrize("nothing", [None, []])
def test_an_id_that_nothing_has_is_an_error_that_names_the_list(
    monkeypatch: pytest.MonkeyPatch, sundog: Run, nothing: object
) -> None:
    monkeypatch.setattr(state, "get_placement_group", lambda *_: nothing)
    done = sundog("get", "placement-groups", "00")
    assert done.exit_code == 1
    assert "there is no row 00 among the placement groups. See: sundog list placement-groups" in done.output


def test_the_errors_of_the_state_api_become_exit_codes(monkeypatch: pytest.MonkeyPatch, sundog: Run) -> None:
    def fails(error: Exception) -> Callable[..., object]:
        def get_actor(*_: object) -> object:
            raise error

        return get_actor

    monkeypatch.setattr(state, "get_actor", fails(RayStateApiException("the id is too short")))
    done = sundog("get", "actors", "0")
    assert (done.exit_code, done.output) == (1, "sundog: the id is too short\n")
    monkeypatch.setattr(state, "get_actor", fails(ServerUnavailable("gone")))
    assert sundog("get", "actors", "0").exit_code == 3
