"""Every view that the list on the left names has an address."""

from __future__ import annotations

from pathlib import Path

from nicegui import app

from sundog.dashboard.page import views
from sundog.dashboard.page.frame import VIEWS
from sundog.dashboard.source import PageSource
from sundog.observe.sessions import Opened


def test_every_view_has_an_address(tmp_path: Path) -> None:
    views.register(PageSource(Opened("s", str(tmp_path))))
    known = {getattr(route, "path", "") for route in app.routes}
    assert {view.path for view in VIEWS} | {"/why", "/task/{number}"} <= known
