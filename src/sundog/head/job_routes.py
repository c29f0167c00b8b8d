"""Routes of jobs: submit, list, show, stop, delete, their output; packages. The forms are Ray's.

::

    POST /api/jobs/ · GET /api/jobs/ · GET, DELETE /api/jobs/{id} · POST /api/jobs/{id}/stop
    GET /api/jobs/{id}/logs   all of it, in one JSON string      WebSocket /api/jobs/{id}/logs/tail   as it comes
    GET /api/jobs/{id}/logs/follow   the same, as plain text
    GET, PUT /api/packages/{protocol}/{name}                     a working_dir as a zip file

Owns the forms of requests and answers, and the pace of followers. A follower that reads slowly is sent slowly; one that
vanished is forgotten. What is sent is read from the file in pieces, so output of any size takes no memory here. Runs in
the head process' event loop.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sundog import trust
from sundog.exceptions import RuntimeEnvSetupError
from sundog.head.jobs import JobExists, NoSuchJob, NotOver
from sundog.jobs.records import JobFolder
from sundog.jobs.rows import JobType, details

if TYPE_CHECKING:
    from sundog.head.desk import HeadDesk

_PIECE_BYTES = 1 << 18
_LOOK_S = 0.1
_PACKAGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


class JobRoutes:
    """The handlers, for one session."""

    def __init__(self, desk: HeadDesk) -> None:
        self.desk = desk
        self.jobs = desk.jobs

    def routes(self) -> list[BaseRoute]:
        """The routes of this part."""
        return [
            Route("/api/jobs/", self.submit, methods=["POST"]),
            Route("/api/jobs/", self.list_all, methods=["GET"]),
            Route("/api/jobs/{job_id}/stop", self.stop, methods=["POST"]),
            Route("/api/jobs/{job_id}/logs", self.logs, methods=["GET"]),
            WebSocketRoute("/api/jobs/{job_id}/logs/tail", self.tail),
            Route("/api/jobs/{job_id}/logs/follow", self.follow, methods=["GET"]),
            Route("/api/jobs/{job_id}", self.show, methods=["GET"]),
            Route("/api/jobs/{job_id}", self.delete, methods=["DELETE"]),
            Route("/api/packages/{protocol}/{name}", self.has_package, methods=["GET"]),
            Route("/api/packages/{protocol}/{name}", self.take_package, methods=["PUT"]),
        ]

    # ------------------------------------------------------------------ verbs
    async def submit(self, request: Request) -> Response:
        if not self.desk.session.is_live:
            return PlainTextResponse("This session has ended: it runs no jobs.", 400)
        try:
            asked = json.loads(await request.body())
            if not isinstance(asked, dict):
                raise TypeError("A job is a JSON object.")
            record = await self.desk.blocking(self.jobs.submit, asked)
        except (JobExists, ValueError, TypeError, RuntimeEnvSetupError) as error:
            return PlainTextResponse(str(error), 400)
        self.desk.wake_jobs()
        return JSONResponse({"job_id": record.submission_id, "submission_id": record.submission_id})

    async def list_all(self, _request: Request) -> Response:
        records = await self.desk.blocking(self.jobs.all)
        drivers = await self.desk.blocking(self.desk.driver_rows)
        known = {record.submission_id for record in records}
        by_submission = {row["submission_id"]: row for row in drivers if row.get("submission_id")}
        submitted = [
            details(record, by_submission.get(record.submission_id), self.desk.session.name)
            for record in records
        ]
        return JSONResponse(
            [*submitted, *(_driver(row) for row in drivers if row.get("submission_id") not in known)]
        )

    async def show(self, request: Request) -> Response:
        found = await self.desk.blocking(self._find, request.path_params["job_id"])
        return JSONResponse(found) if found is not None else _missing(request)

    def _find(self, job_id: str) -> dict[str, object] | None:
        drivers = self.desk.driver_rows()
        driver = next((row for row in drivers if row["job_id"] == job_id), None)
        submission_id = (driver or {}).get("submission_id") or job_id
        with contextlib.suppress(NoSuchJob):
            record = self.jobs.get(submission_id)
            own = [row for row in drivers if row.get("submission_id") == submission_id]
            return details(record, own[-1] if own else None, self.desk.session.name)
        return _driver(driver) if driver is not None else None

    async def _submitted(self, request: Request) -> str | Response:
        """The submission id that a request means, by that id or by its driver's; or the answer that there is none."""
        found = await self.desk.blocking(self._find, request.path_params["job_id"])
        if found is None:
            return _missing(request)
        if found["type"] != JobType.SUBMISSION:
            return PlainTextResponse(
                "This job is a program that joined by itself; it was not submitted.", 400
            )
        return str(found["submission_id"])

    async def stop(self, request: Request) -> Response:
        submission_id = await self._submitted(request)
        if isinstance(submission_id, Response):
            return submission_id
        stopped = await self.desk.blocking(self.jobs.stop, submission_id)
        self.desk.wake_jobs()
        return JSONResponse({"stopped": stopped})

    async def delete(self, request: Request) -> Response:
        submission_id = await self._submitted(request)
        if isinstance(submission_id, Response):
            return submission_id
        try:
            return JSONResponse({"deleted": await self.desk.blocking(self.jobs.delete, submission_id)})
        except NotOver as error:
            return PlainTextResponse(str(error), 400)

    # ------------------------------------------------------------------ output
    async def logs(self, request: Request) -> Response:
        submission_id = await self._submitted(request)
        if isinstance(submission_id, Response):
            return submission_id
        log = JobFolder(self.desk.session.path, submission_id).log
        return StreamingResponse(_as_json(log), media_type="application/json")

    async def follow(self, request: Request) -> Response:
        """The same as `tail`, for clients that have no WebSocket."""
        submission_id = await self._submitted(request)
        if isinstance(submission_id, Response):
            return submission_id
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return StreamingResponse(self._follow(submission_id, gone), media_type="text/plain; charset=utf-8")

    async def tail(self, socket: WebSocket) -> None:
        """Send what a job prints, from its beginning until its end."""
        found = await self.desk.blocking(self._find, socket.path_params["job_id"])
        if found is None or found["type"] != JobType.SUBMISSION:
            await socket.close(1008, "There is no such job.")
            return
        await socket.accept()
        gone = asyncio.create_task(_await_gone(socket))
        try:
            async for text in self._follow(str(found["submission_id"]), gone):
                await socket.send_text(text)
            if not gone.done():
                await socket.close()
        except (WebSocketDisconnect, RuntimeError):
            pass  # the follower vanished
        finally:
            gone.cancel()

    async def _follow(self, submission_id: str, gone: asyncio.Future[None]) -> AsyncIterator[str]:
        folder = JobFolder(self.desk.session.path, submission_id)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        at = 0
        while not gone.done():
            # Asked before reading: what was printed until then is in the file.
            is_over = (record := folder.read()) is None or record.is_over or not self.desk.is_live()
            while piece := _read(folder.log, at):
                at += len(piece)
                if text := decoder.decode(piece):
                    yield text
                if gone.done():
                    return
            if is_over:
                if text := decoder.decode(b"", final=True):
                    yield text
                return
            await asyncio.wait([gone], timeout=_LOOK_S)

    # ------------------------------------------------------------------ packages
    def _package(self, request: Request) -> str | None:
        name = request.path_params["name"]
        if request.path_params["protocol"] != "gcs" or not _PACKAGE.fullmatch(name) or ".." in name:
            return None
        return f"{self.desk.packages}/{name}"

    async def has_package(self, request: Request) -> Response:
        path = self._package(request)
        if path is None or not os.path.isfile(path):
            return PlainTextResponse("There is no such package.", 404)
        return Response()

    async def take_package(self, request: Request) -> Response:
        """Keep an uploaded package: written as it comes, under its name once it is whole."""
        path = self._package(request)
        if path is None:
            return PlainTextResponse("A package is named gcs/NAME.zip.", 400)
        trust.make_folder(os.path.dirname(path))
        temporary = f"{path}.{os.urandom(4).hex()}.part"
        try:
            with open(trust.create_file(temporary), "wb") as file:
                async for piece in request.stream():
                    await self.desk.blocking(file.write, piece)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        return Response()


def _driver(row: dict[str, object]) -> dict[str, object]:
    """The row of a program that joined by itself, in the form of Ray's `JobDetails`."""
    kept = (
        "job_id",
        "submission_id",
        "driver_info",
        "status",
        "entrypoint",
        "message",
        "error_type",
        "metadata",
    )
    return {
        **{name: row.get(name) for name in kept},
        "type": JobType.DRIVER.value,
        "start_time": row.get("start_time"),
        "end_time": row.get("end_time") or None,
        "runtime_env": row.get("runtime_env") or {},
        "driver_agent_http_address": None,
        "driver_node_id": None,
        "driver_exit_code": None,
    }


def _missing(request: Request) -> Response:
    return PlainTextResponse(f"Job {request.path_params['job_id']} does not exist", 404)


def _read(path: str, at: int) -> bytes:
    try:
        file = trust.open_file(path)
    except OSError:
        return b""
    try:
        return os.pread(file, _PIECE_BYTES, at)
    finally:
        os.close(file)


async def _as_json(path: str) -> AsyncIterator[bytes]:
    """{"logs": "…"} of a file of any size, piece by piece."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield b'{"logs": "'
    at = 0
    while piece := _read(path, at):
        at += len(piece)
        yield json.dumps(decoder.decode(piece))[1:-1].encode()
        await asyncio.sleep(0)
    yield json.dumps(decoder.decode(b"", final=True))[1:-1].encode() + b'"}'


async def _await_gone(socket: WebSocket) -> None:
    """Return when the follower has left."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await socket.receive_text()


def routes(desk: HeadDesk) -> list[BaseRoute]:
    """The routes of this part."""
    return JobRoutes(desk).routes()
