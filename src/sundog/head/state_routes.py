"""Routes of Ray's state API: rows, counts, logs and the timeline of a session, in the forms that Ray's clients read.

::

    GET /api/v0/{kind}?filter_keys=…&limit=…&detail=…      rows of one kind
    GET /api/v0/{kind}/summarize                           counts
    GET /api/v0/logs · /api/v0/logs/{file|stream}          names of logs; one of them
    GET /api/v0/tasks/timeline                             Chrome's trace format

Owns the forms. What the answers say is `sundog.util.state`'s; it asks the node and the records, on threads. Runs in the
head process' event loop.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from sundog.util.state import api, logs, summary
from sundog.util.state.exception import RayStateApiException
from sundog.util.state.questions import ask, ask_tasks
from sundog.util.state.schema import KINDS

if TYPE_CHECKING:
    from sundog.head.desk import HeadDesk
    from sundog.plain import JsonObject

Filter = tuple[str, str, str]
_WAITING_PIECES = 16


def reply(result: object, *, status: int = 200, text: str = "") -> Response:
    """An answer in the form that Ray's dashboard gives to all of its clients."""
    body = {"result": status == 200, "msg": text, "data": {"result": result}}
    return Response(json.dumps(body, default=str), status, media_type="application/json")


class StateRoutes:
    """The handlers, for one session."""

    def __init__(self, desk: HeadDesk) -> None:
        self.desk = desk

    def routes(self) -> list[BaseRoute]:
        """The routes of this part."""
        return [
            Route("/api/v0/tasks/timeline", self.timeline),
            Route("/api/v0/logs", self.list_logs),
            Route("/api/v0/logs/{media_type}", self.get_log),
            Route("/api/v0/{kind}/summarize", self.summarize),
            Route("/api/v0/{kind}", self.rows),
        ]

    # ------------------------------------------------------------------ rows
    async def rows(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in KINDS and kind != "cluster_events":
            return reply(None, status=404, text=f"There is no list of {kind}.")
        try:
            filters, limit, detail = _options(request)
            found, total = await self.desk.blocking(self._rows, kind, filters, limit, detail)
        except (ValueError, RayStateApiException) as error:
            return reply(None, status=400, text=str(error))
        return reply(_counted(found, total))

    def _rows(
        self, kind: str, filters: list[Filter], limit: int, detail: bool
    ) -> tuple[list[JsonObject], int]:
        address = self.desk.address
        if kind == "cluster_events":
            return api.list_cluster_events(address, filters), 0
        schema, key = KINDS[kind]
        api.check_options(schema, filters, limit)
        if kind == "tasks":
            found, total = ask_tasks(filters, limit, detail or bool(filters), address, False, api.matches)
        else:
            found = [row for row in ask(kind, True, address, False) if api.matches(row, filters)]
            found.sort(key=lambda row: str(row.get(key) or ""))
            total = len(found)
        names = schema.list_columns(detail=detail)
        # A column that Ray's clients read as an object or nothing.
        odd = {"fallback_strategy": None} if "fallback_strategy" in names else {}
        return [{name: row.get(name) for name in names} | odd for row in found[:limit]], total

    async def summarize(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        questions = {
            "tasks": summary.summarize_tasks,
            "actors": summary.summarize_actors,
            "objects": summary.summarize_objects,
        }
        if kind not in questions:
            return reply(None, status=404, text=f"There is no summary of {kind}.")
        try:
            found = await self.desk.blocking(
                questions[kind], self.desk.address, raise_on_missing_output=False
            )
        except RayStateApiException as error:
            return reply(None, status=500, text=str(error))
        counted = found["cluster"]
        total = sum(
            counted.get(name, 0) for name in counted if name.startswith("total_") and name != "total_size"
        )
        return reply(_counted({"node_id_to_summary": found}, int(total)))

    async def timeline(self, request: Request) -> Response:
        """What ran when, written piece by piece."""
        from sundog.observe.index import opened
        from sundog.observe.trace import TraceWindow, pieces

        def texts() -> Iterator[bytes]:
            with opened(self.desk.session.path) as index:
                for text in pieces(index, TraceWindow(0.0, 1e12)):
                    yield text.encode()

        headers = {}
        if request.query_params.get("download") == "1":
            headers["content-disposition"] = 'attachment; filename="timeline.json"'
        return StreamingResponse(threaded(texts()), media_type="application/json", headers=headers)

    # ------------------------------------------------------------------ logs
    async def list_logs(self, request: Request) -> Response:
        query = request.query_params
        if not query.get("node_id") and not query.get("node_ip"):
            return reply(None, status=400, text="Name the node: node_id or node_ip.")
        try:
            found = await self.desk.blocking(
                logs.list_logs,
                self.desk.address,
                query.get("node_id"),
                query.get("node_ip"),
                query.get("glob", "*"),
            )
        except RayStateApiException as error:
            return reply(None, status=404, text=str(error))
        return reply(found)

    async def get_log(self, request: Request) -> Response:
        """One log, whole or from its end, and what is written from now on if the client wants to stay."""
        query = request.query_params
        follow = request.path_params["media_type"] == "stream"
        try:
            chunks = logs.get_log(
                self.desk.address,
                node_id=query.get("node_id"),
                node_ip=query.get("node_ip"),
                filename=query.get("filename"),
                actor_id=query.get("actor_id"),
                task_id=query.get("task_id"),
                pid=int(query["pid"]) if query.get("pid") else None,
                follow=follow,
                tail=int(query.get("lines", -1)),
                suffix=query.get("suffix", "out"),
                encoding=None,
                submission_id=query.get("submission_id"),
                attempt_number=int(query.get("attempt_number", 0)),
                _interval=float(query["interval"]) if query.get("interval") else None,
                filter_ansi_code=query.get("filter_ansi_code", "").lower() == "true",
            )
            first = await self.desk.blocking(next, chunks, b"") if not follow else b""
        except (ValueError, RayStateApiException) as error:
            return PlainTextResponse(str(error), 500 if isinstance(error, RayStateApiException) else 400)
        return StreamingResponse(threaded(chunks, first), media_type="text/plain")


def _options(request: Request) -> tuple[list[Filter], int, bool]:
    query = request.query_params
    keys, values = query.getlist("filter_keys"), query.getlist("filter_values")
    predicates = query.getlist("filter_predicates") or ["="] * len(keys)
    if not len(keys) == len(values) == len(predicates):
        raise ValueError("A filter is a key, a predicate and a value.")
    limit = int(query.get("limit") or api.DEFAULT_LIMIT)
    return list(zip(keys, predicates, values)), limit, query.get("detail", "").lower() in ("true", "1")


def _counted(result: object, total: int) -> dict[str, object]:
    return {
        "total": total,
        "num_after_truncation": total,
        "num_filtered": total,
        "result": result,
        "partial_failure_warning": "",
        "warnings": None,
    }


async def threaded(chunks: Iterable[bytes], first: bytes = b"") -> AsyncIterator[bytes]:
    """What a blocking iterator gives, read on a thread of its own that ends when the client has left.

    At most a few pieces wait for a client that reads slowly.
    """
    loop = asyncio.get_running_loop()
    waiting: queue.Queue[bytes | None] = queue.Queue(_WAITING_PIECES)
    arrived = asyncio.Event()
    over = threading.Event()

    def put(piece: bytes | None) -> bool:
        while not over.is_set():
            try:
                waiting.put(piece, timeout=0.2)
            except queue.Full:
                continue
            try:
                loop.call_soon_threadsafe(arrived.set)
            except RuntimeError:  # the event loop is closed: no client reads any more
                return False
            return True
        return False

    def read() -> None:
        try:
            for piece in chunks:
                if not put(piece):
                    break
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
            put(None)

    thread = threading.Thread(target=read, name="sundog-head-stream", daemon=True)
    thread.start()
    try:
        if first:
            yield first
        while True:
            arrived.clear()
            while not waiting.empty():
                piece = waiting.get_nowait()
                if piece is None:
                    return
                yield piece
            await arrived.wait()
    finally:
        over.set()


def routes(desk: HeadDesk) -> list[BaseRoute]:
    """The routes of this part."""
    return StateRoutes(desk).routes()
