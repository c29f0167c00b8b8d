"""Routes for the machine and its processes, over a session that has ended."""

from __future__ import annotations

import pytest

from tests.head.conftest import INFO, Ask


def test_an_ended_session_has_no_nodes_and_no_actors(ask: Ask) -> None:
    assert ask("/nodes?view=summary").json()["data"]["summary"] == []
    assert ask("/nodes?view=hostNameList").json()["data"]["hostNameList"] == []
    assert ask("/logical/actors").json()["data"]["actors"] == {}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nodes?view=dragons", 400),
        ("/nodes/nothing", 404),
        ("/logical/actors/nothing", 404),
        ("/worker/traceback", 400),
        ("/worker/traceback?pid=x", 400),
        ("/worker/traceback?pid=1", 404),
        ("/worker/cpu_profile?pid=1", 503),
        ("/memory_profile?pid=1", 503),
    ],
)
def test_what_is_not_there_is_said(ask: Ask, path: str, status: int) -> None:
    assert ask(path).status_code == status


def test_prometheus_is_told_where_the_metrics_are(ask: Ask) -> None:
    (found,) = ask("/api/prometheus/sd").json()
    assert found["targets"] == [f"{INFO.host}:{INFO.port}"]
