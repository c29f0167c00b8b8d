"""A proxy: takes HTTP requests and WebSockets, and hands each to a replica of the application whose route it matches.

::

    client ══HTTP══► uvicorn ──► ProxyApp ──handle_http()──► a replica
                                    ▲ routes, replicas: long polling from the controller

Owns the connections. A request's body is sent with the call when it is short, in pieces when it is long. A client
that goes away cancels its request. An asyncio actor; several may listen on one port.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import sundog
from sundog.exceptions import RayActorError, RayTaskError, TaskCancelledError
from sundog.serve import client as clients
from sundog.serve.answers import StreamedAnswer, WholeAnswer, answer_of, answer_to_error
from sundog.serve.config import HTTPOptions
from sundog.serve.imports import import_attr as _import_attr
from sundog.serve.logs import AccessLog, configure
from sundog.serve.packed_http import answer_from
from sundog.serve.port import Giver, take
from sundog.serve.proxy_metrics import ProxyMetrics
from sundog.serve.request_ids import new_request_id, next_internal_id
from sundog.serve.router import Router
from sundog.serve.rows import (
    MODEL_ID_HEADER,
    NO_DISCONNECT_HEADER,
    REQUEST_ID_HEADER,
    SESSION_ID_HEADER,
    TIMEOUT_HEADER,
    DeploymentID,
    RequestMetadata,
    Route,
)
from sundog.serve.schema import LoggingConfig
from sundog.serve.shared_bodies import BodyPool
from sundog.serve.stages import awaitable

if TYPE_CHECKING:
    from collections.abc import Generator

    import uvicorn
    from starlette.types import Message, Receive, Scope, Send

    from sundog.generator import ObjectRefGenerator
    from sundog.serve.calls import Call
    from sundog.serve.client import Client

_TOGETHER_MAX_BYTES = 64 * 1024  # a longer body is not copied to be sent together with its head
_ROUTES_S = 5.0  # how long a proxy that starts waits for the routes
_TRIM_S = 10.0  # how often the proxy returns memory for bodies that no request needs
_INLINE_MAX = 4 * 1024 * 1024  # size of a body that is sent with the call
_SCOPE_KEYS = ("type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers",
               "client", "server", "subprotocols")  # fmt: skip
_MODEL = MODEL_ID_HEADER.encode()
_SPECIAL = {
    REQUEST_ID_HEADER.encode(),
    SESSION_ID_HEADER.encode(),
    SESSION_ID_HEADER.replace("-", "_").encode(),
    TIMEOUT_HEADER.encode(),
    NO_DISCONNECT_HEADER.encode(),
    _MODEL,
    _MODEL.replace(b"_", b"-"),
}


class ProxyApp:
    """The ASGI app that uvicorn runs."""

    def __init__(self, options: HTTPOptions, metrics: ProxyMetrics) -> None:
        self.options, self.metrics = options, metrics
        self.routes: list[Route] = []
        self._routers: dict[str, Router] = {}  # by the prefix of their route
        self.client: Client | None = None
        self.ongoing = 0
        self.is_draining = False
        self.log: AccessLog | None = None
        self.bodies = BodyPool()
        # Plain requests need no asyncio task (`quick.py`), unless there is a clock to be watched.
        self.has_short_way = not options.request_timeout_s

    def match(self, path: str) -> Route | None:
        """The route with the longest prefix of a path."""
        for route in self.routes:
            prefix = route.prefix
            if prefix == "/" or path == prefix or path.startswith(f"{prefix}/"):
                return route
        return None

    def set_routes(self, routes: list[Route]) -> None:
        """The routes have changed."""
        self.routes = routes
        self._routers = {}

    def router_of(self, route: Route) -> Router:
        """The router of the deployment behind a route."""
        found = self._routers.get(route.prefix)
        if found is None:
            assert self.client is not None
            found = self.client.router(DeploymentID(route.deployment, route.app_name))
            self._routers[route.prefix] = found
        return found

    def begun(self) -> None:
        """A request has begun."""
        self.ongoing += 1
        if self.ongoing == 1:
            self.metrics.watch(lambda: self.ongoing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        root = self.options.root_path
        path: str = scope["path"]
        if root:
            path = path[len(root) :] if path.startswith(root) else path
        if path.startswith("/-/") and scope["type"] == "http":
            await self._answer_itself(path, send)
            return
        route = self.match(path)
        if route is None:
            text = f"No application serves the path {path!r}. GET /-/routes lists the routes there are."
            given = next((each for name, each in scope["headers"] if name == REQUEST_ID_HEADER.encode()), b"")
            request_id = given.decode("latin-1") or new_request_id()
            await self._send_answer(scope, send, answer_of(text, 404), request_id)
            self.metrics.ended("", scope.get("method", "WS"), 404, "", time.perf_counter() - began)
            return
        self.begun()
        status = 500
        request = _Request(self, route, scope, receive, send, root)
        try:
            status = await request.run()
        finally:
            self.ongoing -= 1
            seconds = time.perf_counter() - began
            method = scope.get("method", "WS")
            self.metrics.ended(route.prefix, method, status, route.app_name, seconds)
            if self.log is not None:
                self.log.note(request.meta.request_id, method, path, str(status), seconds)

    async def _answer_itself(self, path: str, send: Send) -> None:
        if path == "/-/routes":
            answer = answer_of({each.prefix: each.app_name for each in self.routes})
        elif path == "/-/healthz":
            if self.is_draining:
                answer = answer_of("This node is being drained.", 503)
            elif self.routes:
                answer = answer_of("success")
            else:
                answer = answer_of("This proxy has no routes so far.", 503)
        else:
            answer = answer_of(
                f"No application serves the path {path!r}. GET /-/routes lists the routes there are.", 404
            )
        await _write(send, answer)

    async def _send_answer(self, scope: Scope, send: Send, answer: WholeAnswer, request_id: str) -> None:
        if scope["type"] == "websocket":
            await send(
                {"type": "websocket.close", "code": 1011 if answer.status >= 500 else 1008, "reason": ""}
            )
            return
        headers = answer.headers
        if request_id:
            headers = [*headers, (REQUEST_ID_HEADER.encode(), request_id.encode("latin-1", "replace"))]
        connection = scope.get("sundog.connection")
        if connection is None or len(answer.body) > _TOGETHER_MAX_BYTES:
            await _write(send, WholeAnswer(answer.status, headers, answer.body))
            return
        connection.hold()
        try:
            await _write(send, WholeAnswer(answer.status, headers, answer.body))
        finally:
            connection.release()


async def _write(send: Send, answer: WholeAnswer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})


class _Request:
    """One request, from its head to the end of its answer."""

    def __init__(
        self, app: ProxyApp, route: Route, scope: Scope, receive: Receive, send: Send, root: str
    ) -> None:
        self.app, self.route, self.scope, self.receive, self.send = app, route, scope, receive, send
        self.is_socket = scope["type"] == "websocket"
        found = {name: value for name, value in scope["headers"] if name in _SPECIAL}
        text = {
            name.decode("latin-1").replace("_", "-"): value.decode("latin-1") for name, value in found.items()
        }
        self.call: Call | None = scope.get("sundog.call")  # set on the short path
        self.request_id = text.get(REQUEST_ID_HEADER) or new_request_id()
        self.timeout_s = _seconds(text.get(TIMEOUT_HEADER), app.options.request_timeout_s)
        self.ignores_disconnect = text.get(NO_DISCONNECT_HEADER, "") in ("1", "true", "True", "?1")
        self.meta = self._metadata(text) if self.call is None else self.call.meta
        self.request_id = self.meta.request_id
        self.sent_scope = {key: scope[key] for key in _SCOPE_KEYS if key in scope}
        if REQUEST_ID_HEADER not in text:  # the app finds it among the headers, chosen by the client or here
            own = (REQUEST_ID_HEADER.encode(), self.request_id.encode("latin-1", "replace"))
            self.sent_scope["headers"] = [*scope["headers"], own]
        if route.prefix != "/":
            self.sent_scope["root_path"] = root + route.prefix
        self.has_begun = False
        self.is_gone = False
        self.stream: ObjectRefGenerator[object] | None = None
        self.waiter: asyncio.Future[object] | None = None

    def _metadata(self, text: dict[str, str]) -> RequestMetadata:
        route = self.route
        return RequestMetadata(
            self.request_id,
            next_internal_id(),
            "__call__",
            route.prefix,
            route.app_name,
            text.get(MODEL_ID_HEADER.replace("_", "-"), ""),
            text.get(SESSION_ID_HEADER, ""),
            False,
            True,
        )

    async def run(self) -> int:
        """Serve it; the status that the client saw."""
        try:
            if self.timeout_s is None:
                return await self._serve()
            async with asyncio.timeout(self.timeout_s):
                return await self._serve()
        except TimeoutError as error:
            self._cancel()
            return await self._fail(error)
        except asyncio.CancelledError:
            self._cancel()
            raise
        except _Gone:
            self._cancel()
            return 499
        except Exception as error:
            self._cancel()
            return await self._fail(error)

    async def _fail(self, error: BaseException) -> int:
        answer = answer_to_error(error, self.request_id, self.timeout_s)
        if self.is_gone:
            return 499
        if self.has_begun:
            # a part of the answer is sent: only a closed connection can inform the client
            raise _Broken from error
        await self.app._send_answer(self.scope, self.send, answer, self.request_id)
        return answer.status

    def _cancel(self) -> None:
        if self.stream is not None:
            with contextlib.suppress(Exception):
                sundog.cancel(self.stream)
        elif self.call is not None:
            with contextlib.suppress(Exception):
                self.call.cancel()

    async def _serve(self) -> int:
        more = False
        if self.call is None:
            if self.is_socket:
                await self.receive()  # the connect message; the app's own message is created in the replica
                body = b""
            else:
                body, more = await self._first_body()
            router = self.app.router_of(self.route)
            self.call = router.assign_http(self.meta, self.sent_scope, body, more)
        feeder: asyncio.Task[None] | None = None
        if more or self.is_socket:
            feeder = asyncio.ensure_future(self._feed())
        else:
            feeder = None
        try:
            answer = await self._first_answer(feeder)
            if isinstance(answer, WholeAnswer):
                await self.app._send_answer(self.scope, self.send, answer, self.request_id)
                return answer.status
            return await self._relay(answer)
        finally:
            if feeder is not None:
                feeder.cancel()

    async def _first_body(self) -> tuple[bytes, bool]:
        """The body, or as much of it as may travel with the call, and whether there is more."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            self.is_gone = True
            raise _Gone
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body, False
        parts, size = [body], len(body)
        while size < _INLINE_MAX:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                self.is_gone = True
                raise _Gone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body", False):
                return b"".join(parts), False
        return b"".join(parts), True

    async def _first_answer(self, feeder: asyncio.Task[None] | None) -> WholeAnswer | StreamedAnswer:
        """What the replica answers, unless the client goes away first."""
        connection = self.scope.get("sundog.connection")
        if feeder is not None:
            return await self._answer()
        if connection is not None:
            connection.on_lost = self._lost
            try:
                return await self._answer()
            finally:
                connection.on_lost = None
        # Without httptools no event reports a disconnect, so a second task listens.
        answering = asyncio.ensure_future(self._answer())
        leaving = asyncio.ensure_future(self.receive())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self.is_gone = True
                if not self.ignores_disconnect:
                    raise _Gone
            return await answering
        finally:
            leaving.cancel()
            if not answering.done():
                answering.cancel()

    def _lost(self) -> None:
        """The client has gone away."""
        self.is_gone = True
        if not self.ignores_disconnect and self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(_Gone())

    async def _answer(self) -> WholeAnswer | StreamedAnswer:
        call = self.call
        assert call is not None
        while True:
            stage = call.current
            assert stage is not None
            waiter = self.waiter = awaitable(stage)
            try:
                value = await waiter
            except RayActorError as error:
                if isinstance(error, RayTaskError) or not call.may_go_elsewhere(stage, error):
                    raise
                continue
            if not call.was_refused(stage, value):
                return answer_from(value) if type(value) is bytes else value  # type: ignore[return-value]

    async def _feed(self) -> None:
        """Hand on what the client sends, piece by piece: the next is read when the replica has taken the last."""
        call = self.call
        assert call is not None
        while True:
            message = await self.receive()
            while call.replica is None or call.ref is None:
                await asyncio.sleep(0.002)
            actor = call.replica.actor
            if message["type"].endswith("disconnect"):
                self.is_gone = True
            for _ in range(500):
                if await actor.http_input.remote(self.meta.internal_request_id, [message]):
                    break
                if call.current is None or call.current.done():
                    return
                await asyncio.sleep(0.002)  # the call that opens the exchange has not arrived yet
            if message["type"].endswith("disconnect"):
                if not self.is_socket and not self.ignores_disconnect:
                    self._cancel()
                return

    async def _relay(self, first: StreamedAnswer) -> int:
        """Send a stream on as it comes."""
        status = await self._send_all(first.messages, 200)
        if first.is_done:
            return status
        assert self.call is not None and self.call.replica is not None
        stream = self.stream = self.call.replica.actor.http_stream.options(
            _generator_backpressure_num_objects=16
        ).remote(self.meta.internal_request_id)
        watching = None if self.is_socket else asyncio.ensure_future(self._watch(stream))
        try:
            async for ref in stream:
                status = await self._send_all(await ref, status)
        except TaskCancelledError:
            if self.is_gone:
                return 499
            raise
        except OSError:
            self.is_gone = True
            raise _Gone from None
        finally:
            if watching is not None:
                watching.cancel()
        return status

    async def _watch(self, stream: ObjectRefGenerator[object]) -> None:
        """Cancel a stream whose client has gone away."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        if not self.ignores_disconnect:
            sundog.cancel(stream)

    async def _send_all(self, messages: list[Message], status: int) -> int:
        for message in messages:
            if message["type"] == "http.response.start":
                status = message["status"]
                self.has_begun = True
                named = (REQUEST_ID_HEADER.encode(), self.request_id.encode("latin-1", "replace"))
                message = {**message, "headers": [*message.get("headers", ()), named]}
            await self.send(message)
        return status


class _Gone(Exception):
    """The client went away."""


class _Broken(Exception):
    """An answer cannot be finished."""


def _seconds(text: str | None, default: float | None) -> float | None:
    try:
        found = float(text) if text else None
    except ValueError:
        found = None
    if found is None or found <= 0:
        found = default
    return found if found and found > 0 else None


class ProxyActor:
    """The process of a proxy."""

    def __init__(
        self, number: int, options: HTTPOptions, ports: str, logs: str, logging: LoggingConfig
    ) -> None:
        self._number, self._options, self._ports = number, options, ports
        self._log_folder, self._logging = logs, logging
        self._server: uvicorn.Server | None = None
        self._giver: Giver | None = None
        self._task: asyncio.Task[None] | None = None
        self._app = ProxyApp(options, ProxyMetrics())

    async def ready(self, routes: list[Route]) -> dict[str, object]:
        """Listen; returns when the port is open."""
        if self._server is None:
            await self._listen(routes)
        runtime = sundog.get_runtime_context()
        return {"actor_id": runtime.get_actor_id(), "worker_id": runtime.get_worker_id()}

    async def _listen(self, routes: list[Route]) -> None:
        import uvicorn

        name = f"proxy_{self._number}"
        path = configure(name, str(os.getpid()), self._log_folder, self._logging)
        loop = asyncio.get_running_loop()
        self._app.log = AccessLog(loop, path, self._logging, name, str(os.getpid()))
        self._app.set_routes(routes)
        client = self._app.client = await loop.run_in_executor(None, clients.connect)
        client.is_proxy = True
        for router in client.routers.values():
            router.is_proxy = True
        options = self._options
        try:
            http: type[asyncio.Protocol] | Literal["h11"] = _import_attr(
                "sundog.serve.http_protocol:BoundedProtocol"
            )
        except ImportError:
            http = "h11"  # without httptools
        config = uvicorn.Config(
            self._app,
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="error",
            http=http,
            server_header=False,
            date_header=False,
            timeout_keep_alive=options.keep_alive_timeout_s,
            root_path=options.root_path,
            ssl_keyfile=options.ssl_keyfile,
            ssl_certfile=options.ssl_certfile,
            ssl_keyfile_password=options.ssl_keyfile_password,
            ssl_ca_certs=options.ssl_ca_certs,
            ws=_websocket if find_spec("websockets") or find_spec("wsproto") else "none",  # type: ignore[arg-type]
            ws_max_size=64 * 1024 * 1024,
        )
        sock = await loop.run_in_executor(None, take, self._ports)
        if sock is None:
            raise RuntimeError("No process of Serve listens on the port: the controller has just died.")
        self._giver = Giver(sock, self._ports, loop)
        # Before the first connection is accepted: an application may have come since the controller's call.
        await self._follow(client)
        server = self._server = _quiet_server(config)
        self._task = asyncio.ensure_future(server.serve(sockets=[sock]))
        while not server.started and not self._task.done():
            await asyncio.sleep(0.001)
        loop.call_later(_TRIM_S, self._trim)

    def _trim(self) -> None:
        self._app.bodies.trim()
        asyncio.get_running_loop().call_later(_TRIM_S, self._trim)

    async def _follow(self, client: Client) -> None:
        """Keep the routes up to date; returns when they are."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()

        async def follow() -> None:
            async for routes in client.follow(("routes",)):
                if routes is not None:
                    loop.call_soon_threadsafe(self._set_routes, routes)
                loop.call_soon_threadsafe(told.set)

        client.run(follow())
        with contextlib.suppress(
            TimeoutError
        ):  # the controller was just killed: it sends the routes when it is back
            await asyncio.wait_for(told.wait(), _ROUTES_S)

    def _set_routes(self, routes: list[Route]) -> None:
        self._app.set_routes(routes)
        for route in routes:  # so that the first request need not wait for the list of replicas
            self._app.router_of(route)

    async def parked(self) -> None:
        """Never ends while the proxy lives."""
        await asyncio.Event().wait()

    async def drain(self) -> None:
        """Take no more connections."""
        self._app.is_draining = True
        if self._giver is not None:
            self._giver.close()
            self._giver = None
        if self._server is not None:
            for each in self._server.servers:
                each.close()
        deadline = time.monotonic() + 1
        while self._app.ongoing and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self._app.log is not None:
            self._app.log.flush()


def _websocket(**given: Any) -> asyncio.Protocol:
    """A connection that has become a WebSocket; the first one imports the code of the protocol."""
    from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol

    assert AutoWebSocketsProtocol is not None
    return AutoWebSocketsProtocol(**given)


def _quiet_server(config: uvicorn.Config) -> uvicorn.Server:
    """uvicorn's server, which must leave this process's signals alone."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            yield

    return Server(config)
