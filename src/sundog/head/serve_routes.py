"""Routes of Ray Serve's REST interface: `GET`, `PUT` and `DELETE` of `/api/serve/applications/`.

::

    head ── a program of its own, for one request ──► joins the session ── serve.operations ──► Serve's controller

Owns the requests and that program's start. The head process itself joins no session: it runs no user's code and
unpickles nothing. Runs in the head process' event loop; `main` in the program.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from sundog.config import user_environ

if TYPE_CHECKING:
    from sundog.head.desk import HeadDesk

_TIMEOUT_S = 120.0
_WRONG = 3  # the exit code for a request that makes no sense


def routes(desk: HeadDesk) -> list[BaseRoute]:
    """The routes of this part."""

    async def applications(request: Request) -> Response:
        if not desk.session.is_live:
            return PlainTextResponse("This session has ended: Serve does not run in it.", 400)
        verb = {"GET": "details", "PUT": "apply", "DELETE": "clear"}[request.method]
        body = await request.body()
        if verb == "apply" and not _is_object(body):
            return PlainTextResponse("A Serve config is a JSON object with the key applications.", 400)
        code, answer, text = await _operate(verb, desk.session.path, body)
        if code == 0:
            return Response(answer, media_type="application/json")
        return PlainTextResponse(text, 400 if code == _WRONG else 500)

    methods = ["GET", "PUT", "DELETE"]
    return [Route("/api/serve/applications/", applications, methods=methods)]


def _is_object(body: bytes) -> bool:
    """Whether a body is worth a program that reads it."""
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


async def _operate(verb: str, session: str, body: bytes) -> tuple[int, bytes, str]:
    """Do something with Serve in a program of its own; returns its exit code, its answer, and why it failed."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environ = user_environ()
    inherited = environ.get("PYTHONPATH")
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"from sundog.head.serve_routes import main; main({verb!r}, {session!r})",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environ | {"PYTHONPATH": os.pathsep.join([*([inherited] if inherited else []), source])},
    )
    try:
        answer, errors = await asyncio.wait_for(program.communicate(body), _TIMEOUT_S)
    except (TimeoutError, asyncio.CancelledError):
        program.kill()
        await program.wait()
        raise
    return program.returncode or 0, answer, errors.decode("utf-8", "replace").strip()


def main(verb: str, session: str) -> None:
    """Be the program: join, do it, print the answer."""
    import sundog
    from sundog.serve import operations

    body = sys.stdin.buffer.read()
    sundog.init(address=session, namespace="serve", log_to_driver=False, logging_level="error")
    try:
        if verb == "apply":
            operations.apply(json.loads(body))
        elif verb == "clear":
            operations.clear()
        else:
            print(json.dumps(operations.details(), default=str))
    except (ValueError, TypeError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(_WRONG) from None
    finally:
        sundog.shutdown()
