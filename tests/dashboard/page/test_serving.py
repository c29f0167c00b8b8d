"""Serve's view in words: figures, deployments, revisions; what a user wrote is no HTML."""

from __future__ import annotations

from pathlib import Path

from sundog.dashboard.page.serving import (
    NEVER,
    applications_html,
    cards_html,
    deployments_html,
    points,
    revisions_html,
)
from sundog.dashboard.serving import REQUESTS, ServeWatch
from sundog.observe.metric_history import History
from tests.dashboard.test_serving import TOLD, series, session


def test_deployments_are_rows_with_their_numbers(tmp_path: Path) -> None:
    told = {**TOLD, "applications": {"<b>": TOLD["applications"]["shop"]}}
    picture = ServeWatch(session(tmp_path, told)).look(series("r1", 10, 0, (10, 0, 0)), True)
    assert picture is not None
    text = applications_html(picture) + deployments_html(picture) + revisions_html(picture)
    assert "&lt;b&gt;" in text and "<b>" not in text
    for part in ("2 of 2", "b2 replaces a1", "width:50%", "3 of 10", "UPDATING", "2 (runs)", "Price a1"):
        assert part in text
    assert "127.0.0.1:8000" in cards_html(picture, True) and "127.0.0.1:8000" not in cards_html(
        picture, False
    )


def test_where_serve_never_ran_it_is_told_how_it_starts() -> None:
    assert NEVER in cards_html(None, True)


def test_a_chart_has_a_line_for_each_deployment() -> None:
    history = History()
    for at, (a, b) in ((10.0, (10, 0)), (15.0, (20, 5)), (20.0, (20, 10))):
        history.take(
            at,
            {
                f"{REQUESTS}{{deployment=D, replica=x}}": ["counter", REQUESTS, float(a)],
                f"{REQUESTS}{{deployment=D, replica=y}}": ["counter", REQUESTS, float(b)],
                f"{REQUESTS}{{deployment=E, replica=z}}": ["counter", REQUESTS, 1.0],
            },
        )
    lines = dict(points(history, REQUESTS, 20.0))
    assert lines["D"] == [[10000, 2.0], [15000, 3.0], [20000, 1.0]] and set(lines) == {"D", "E"}
