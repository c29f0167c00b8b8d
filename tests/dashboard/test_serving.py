"""Serve's picture: rows of what the controller told, with numbers of metrics and of the board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sundog.dashboard.serving import ERRORS, LATENCY, REQUESTS, Numbers, ServeWatch, numbers_of
from sundog.observe.metric_files import COUNTER, HISTOGRAM, Series, SeriesKey
from sundog.serve.board import QueueBoard, create

TOLD: dict[str, Any] = {
    "at_s": 5.0,
    "is_over": False,
    "host": "127.0.0.1",
    "port": 8000,
    "applications": {
        "shop": {
            "status": "DEPLOYING",
            "route_prefix": "/shop",
            "deployed_s": 4.0,
            "revisions": [
                {"number": 1, "at_s": 3.0, "what": "deploy", "outcome": "ran", "versions": {"Price": "a1"}},
                {"number": 2, "at_s": 4.0, "what": "deploy", "outcome": "deploying", "versions": {}},
            ],
            "deployments": {
                "Price": {
                    "status": "UPDATING",
                    "wanted": 2,
                    "version": "b2",
                    "previous": "a1",
                    "max_ongoing": 5,
                    "queue_row": 0,
                    "replicas": [
                        {"id": "r1", "state": "RUNNING", "version": "b2", "board_row": 1, "pid": 12},
                        {"id": "r2", "state": "RUNNING", "version": "a1", "board_row": 2, "pid": 13},
                    ],
                }
            },
        }
    },
}


def series(replica: str, done: float, errors: float, buckets: tuple[float, ...]) -> list[Series]:
    tags = (("deployment", "Price"), ("replica", replica), ("application", "shop"), ("route", "/shop"))
    return [
        Series(SeriesKey(REQUESTS, COUNTER, "", tags), (done,)),
        Series(SeriesKey(ERRORS, COUNTER, "", tags), (errors,)),
        Series(SeriesKey(LATENCY, HISTOGRAM, "", tags, (10.0, 100.0)), (10.0 * (done + errors), *buckets)),
        Series(SeriesKey("own", COUNTER, "", tags), (1.0,)),
    ]


def session(tmp_path: Path, told: object = TOLD) -> str:
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "status.json").write_text(json.dumps(told))
    create(str(tmp_path / "serve" / "board"))
    board = QueueBoard(str(tmp_path / "serve" / "board"), 3)
    board.add(0, 7)
    board.add(1, 2)
    board.add(2, 1)
    board.close()
    return str(tmp_path)


def test_a_deployment_has_its_queue_its_rates_and_how_far_its_update_is(tmp_path: Path) -> None:
    serving = ServeWatch(session(tmp_path))
    first = serving.look(series("r1", 10, 0, (10, 0, 0)), True, 100.0)
    assert first is not None and first.deployments[0]["rate"] is None
    later = serving.look([*series("r1", 40, 10, (10, 40, 0)), *series("gone", 5, 0, (5, 0, 0))], True, 110.0)
    assert later is not None
    (row,) = later.deployments
    assert (row["waiting"], row["ongoing"], row["most"], row["running"], row["wanted"]) == (7, 3, 10, 2, 2)
    assert (row["requests"], row["errors"], row["rate"], row["error_rate"]) == (55, 10, 4.5, 1.0)
    assert 10 < (row["p95_ms"] or 0) < 100, "of what came since the first look, which was mostly slow"
    assert row["rollout"] == "b2 replaces a1: 1 of 2 are new, 1 old"
    new, old = later.replicas
    assert (new["requests"], new["ongoing"], new["version"], new["mean_ms"]) == (50, 2, "b2", 10.0)
    assert (old["requests"], old["version"], old["pid"]) == (0, "a1 (old)", 13)
    assert later.applications[0]["route"] == "/shop"
    assert [(each["number"], each["is_current"]) for each in later.revisions] == [(1, False), (2, True)]


def test_of_a_session_that_has_ended_there_are_totals_and_no_rates(tmp_path: Path) -> None:
    serving = ServeWatch(session(tmp_path, {**TOLD, "is_over": True}))
    for now in (1.0, 2.0):
        picture = serving.look(series("r1", 10, 0, (10, 0, 0)), False, now)
    assert picture is not None and picture.is_over
    (row,) = picture.deployments
    assert (row["rate"], row["waiting"], row["ongoing"], row["requests"]) == (None, None, None, 10)


def test_without_serve_there_is_no_picture_and_of_nonsense_an_empty_one(tmp_path: Path) -> None:
    assert ServeWatch(str(tmp_path)).look([], True) is None
    nonsense = {"applications": {"a": 3, "b": {"deployments": {"c": {"replicas": [1, {}]}}}}, "at_s": None}
    picture = ServeWatch(session(tmp_path, nonsense)).look([], True)
    assert picture is not None and [row["deployment"] for row in picture.deployments] == ["c"]


def test_percentiles_come_from_the_buckets() -> None:
    assert Numbers().percentile_ms(0.5) is None
    numbers = numbers_of([*series("r1", 1, 0, (1, 0, 0)), *series("r1", 1, 0, (0, 0, 1))])
    (row,) = numbers.values()
    assert row.percentile_ms(0.25) == 5.0 and row.percentile_ms(1.0) == 100.0
