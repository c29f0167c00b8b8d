"""The head process' application: all routes, behind the guard.

::

    make_app ──► Guard ( Starlette: /api/… of Ray · jobs · packages · Serve · metrics · the page )

Owns the list of parts; each part is a module with `routes(desk)`. A part that needs a package which is not installed
leaves its routes out. Runs in the head process' event loop; what blocks goes to threads (`Desk.blocking`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from sundog.head.desk import HeadDesk
from sundog.head.guard import Guard

if TYPE_CHECKING:
    from starlette.requests import Request

    from sundog.engines.heads import HeadInfo
    from sundog.observe.sessions import Opened


def make_app(session: Opened, info: HeadInfo, max_running_jobs: int = 0, *, with_page: bool = False) -> Guard:
    """The application for a session, running or ended.

    Args:
        session: which.
        info: where it will listen, and its token.
        max_running_jobs: how many submitted jobs may run at a time; 0 is any number.
        with_page: put the page at /: once in a process, for its library keeps one application.
    """
    desk = HeadDesk(session, info, max_running_jobs)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await desk.open()
        try:
            yield
        finally:
            await desk.close()

    app = Starlette(routes=_routes(desk), exception_handlers=_HANDLERS, lifespan=lifespan)
    app.state.desk = desk
    open_prefixes = _mount_page(app, desk) if with_page else ()
    return Guard(app, info.token, info.host, open_prefixes)


def _routes(desk: HeadDesk) -> list[BaseRoute]:
    from sundog.dashboard import routes as metrics
    from sundog.head import health, job_routes, machine_routes, serve_routes, state_routes

    parts = (health, job_routes, state_routes, machine_routes, serve_routes, metrics)
    return [*(route for part in parts for route in part.routes(desk)), fallback()]


def _mount_page(app: Starlette, desk: HeadDesk) -> tuple[str, ...]:
    """Put the page at /; returns the paths below which its static files are."""
    try:
        from sundog.dashboard.page import mount

        return mount(app, desk.session)
    except ImportError:  # without NiceGUI, jobs and metrics work, and the page is missing
        return ()


async def _bad_request(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"result": False, "msg": str(error), "data": {}}, status_code=400)


async def _gone(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"result": False, "msg": str(error), "data": {}}, status_code=503)


_HANDLERS: dict[object, Callable[..., Any]] = {ValueError: _bad_request, ConnectionError: _gone}


async def _not_found(_request: Request) -> JSONResponse:
    return JSONResponse({"result": False, "msg": "There is no such address.", "data": {}}, status_code=404)


def fallback() -> Route:
    """Answers what no other route does."""
    return Route("/api/{rest:path}", _not_found)
