"""The page: a session in a browser, drawn in Python with NiceGUI, which ships its JavaScript in its wheel.

::

    browser ◄── WebSocket: what changed ── view (a function per address) ◄── PageSource (threads) ◄── records, node

`mount` puts it below an application. Each view is a function that builds its elements and refreshes them once a second
while its browser is connected; nothing runs while no browser is connected. Needs the extra `sundog[default]`. Runs in
the head process' event loop; what blocks goes to threads. See docs/decisions/0023-the-page-is-drawn-in-python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.applications import Starlette

    from sundog.observe.sessions import Opened

STATIC = ("/_nicegui/",)
"""Paths of the library's own files, which any browser may read: scripts, styles and fonts, nothing of a session."""


def mount(app: Starlette, opened: Opened) -> tuple[str, ...]:
    """Put the page at `/`, behind the routes that the application has already. Once in a process.

    Args:
        app: a Starlette application.
        opened: the session to show, running or ended.

    Returns:
        The paths below which static files are.

    Raises:
        ImportError: NiceGUI is not installed.
    """
    from nicegui import ui

    from sundog.dashboard.page import frame, views
    from sundog.dashboard.source import PageSource

    views.register(PageSource(opened))
    ui.run_with(
        cast("FastAPI", app),  # the page uses nothing that Starlette lacks
        title="sundog",
        favicon=frame.ICON,
        dark=None,
        binding_refresh_interval=None,
        reconnect_timeout=15.0,
        message_history_length=200,
        tailwind=False,
        show_welcome_message=False,
        # Compressing a megabyte of scripts takes longer than sending it within a machine.
        gzip_middleware_factory=None,
    )
    return STATIC
