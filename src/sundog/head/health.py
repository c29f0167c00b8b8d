"""Routes that say that the head process is there, and which versions answer: `/api/healthz`, `/api/version`.

Owns no state. Runs in the head process' event loop.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

import sundog

if TYPE_CHECKING:
    from sundog.head.desk import HeadDesk

# The interface whose routes and JSON these are.
RAY_VERSION = "2.60.0"
# Ray's job client asks for version 4 of it.
_JOBS_API_VERSION = "4"


def routes(desk: HeadDesk) -> list[BaseRoute]:
    """The routes of this part."""

    async def version(_request: Request) -> Response:
        return JSONResponse(
            {
                "version": _JOBS_API_VERSION,
                "ray_version": RAY_VERSION,
                "ray_commit": f"sundog-{sundog.__version__}",
                "session_name": desk.session.name,
                "python_version": ".".join(map(str, sys.version_info[:3])),
                "sundog_version": sundog.__version__,
            }
        )

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("success")

    async def authenticate(_request: Request) -> Response:
        # The guard has seen the token, or this is not reached.
        return JSONResponse({"status": "authenticated"})

    async def mode(_request: Request) -> Response:
        return JSONResponse({"authentication_mode": "token"})

    return [
        Route("/api/version", version),
        Route("/api/healthz", healthz),
        Route("/api/gcs_healthz", healthz),
        Route("/api/local_raylet_healthz", healthz),
        Route("/api/authenticate", authenticate, methods=["GET", "POST"]),
        Route("/api/authentication_mode", mode),
    ]
