"""A replica: the actor that runs the user's code of a deployment.

::

    router ──handle_request(meta, …)──► room? ──► the user's method ──► its result
                                         no ──► Rejection: the router looks elsewhere
    controller ──initialize · reconfigure · check_health · drain──►

Owns the user's object, the number of requests that run, and the HTTP exchanges. Coroutines of the user run in the
actor's own event loop: one that blocks holds up all others. Runs in an actor's worker.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sundog
from sundog.serve import _needs, context
from sundog.serve.answers import StreamedAnswer, WholeAnswer, answer_of, answer_to_error
from sundog.serve.context import ReplicaContext, RequestContext
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.exceptions import RayServeException
from sundog.serve.exchange import Exchange
from sundog.serve.logs import AccessLog, configure
from sundog.serve.packed_http import ASGI, beside, pack_answer, pack_stream, piece_beside, unpack_request
from sundog.serve.replica_metrics import Level, ReplicaMetrics
from sundog.serve.rows import Rejection, ReplicaID, RequestMetadata
from sundog.serve.schema import LoggingConfig, ReplicaRank
from sundog.serve.shared_bodies import BodyPlace, BodyReaders
from sundog.serve.user_code import UserCode

if TYPE_CHECKING:
    from typing import TypeGuard

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Scope

    from sundog.plain import JsonObject
    from sundog.serve.gang import GangContext

_IDLE_LOOK_S = 0.02
_ANYIO = "anyio._backends._asyncio"
_LIMIT_ANYIO_S = 0.5
_PLAIN = frozenset({str, bytes, dict, list, int, float, bool, type(None)})


@dataclass
class ReplicaBoot:
    """All that a replica needs to begin."""

    replica_id: ReplicaID
    code: bytes  # the definition and the arguments of its constructor, pickled by the driver
    config: DeploymentConfig
    version: str
    rank: int
    world_size: int
    log_folder: str
    logging: LoggingConfig
    gang: GangContext | None = None


@dataclass
class ReplicaFacts:
    """What a replica tells of itself once it runs."""

    pid: int
    node_id: str
    actor_id: str
    worker_id: str
    docs_path: str | None
    log_path: str
    metadata: dict[str, object] = field(default_factory=dict)


class ReplicaActor:
    """Runs requests of one deployment."""

    def __init__(self, boot: ReplicaBoot) -> None:
        self._boot = boot
        self._config = boot.config
        self._user: UserCode | None = None
        self._ongoing = 0
        self._is_stopping = False
        self._is_changing = False  # the user_config is about to change
        self._exchanges: dict[str, Exchange] = {}
        self._bodies = BodyReaders()
        self._running: set[asyncio.Task[object]] = set()
        self._log: AccessLog | None = None
        self._metrics = ReplicaMetrics(boot.replica_id)
        self._level: Level | None = None
        self._making: asyncio.Future[ReplicaFacts] | None = None

    # ------------------------------------------------------------------ life
    async def initialize(self) -> ReplicaFacts:
        """Make the user's object, once; a controller that came back asks again."""
        if self._making is None:
            self._making = asyncio.ensure_future(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> ReplicaFacts:
        boot, config = self._boot, self._config
        where = boot.replica_id.deployment_id
        name = f"{where.app_name}_{where.name}"
        logging = config.logging_config or boot.logging
        path = configure(f"replica_{name}", boot.replica_id.unique_id, boot.log_folder, logging)
        loop = asyncio.get_running_loop()
        self._log = AccessLog(loop, path, logging, name, boot.replica_id.unique_id)
        # Before the replica counts as ready: otherwise the first request would wait for it.
        _needs.load("starlette.requests")
        definition, args, kwargs = pickle.loads(boot.code)
        self._user = user = UserCode(definition, args, kwargs)
        self._set_context(boot.rank, boot.world_size)
        self._limit_threads()
        await user.construct()
        await user.reconfigure(config.user_config, _rank(boot.rank))
        await self._probe()
        runtime = sundog.get_runtime_context()
        metadata = await user.ask("record_replica_metadata") or {}
        facts = ReplicaFacts(
            os.getpid(),
            runtime.get_node_id(),
            runtime.get_actor_id() or "",
            runtime.get_worker_id(),
            user.object.docs_path if user.is_asgi else None,
            path,
            metadata,
        )
        self._metrics.started()
        running = self._metrics.gauge(
            "serve_replica_processing_queries", "Requests that run in this replica."
        )
        self._level = Level(loop, running, lambda: self._ongoing)
        return facts

    async def _probe(self) -> None:
        timeout = self._config.health_check_timeout_s
        assert self._user is not None
        await asyncio.wait_for(self._user.ask("check_health"), timeout)

    def _set_context(self, rank: int, world_size: int) -> None:
        assert self._user is not None
        servable = self._user.object if self._user.object is not None else self._user.make()
        context.set_replica_context(
            ReplicaContext(
                self._boot.replica_id,
                servable,
                self._config,
                _rank(rank),
                world_size,
                self._boot.gang,
                self._boot.version,
            )
        )

    def _limit_threads(self) -> None:
        assert self._user is not None
        self._user.limit_threads(self._config.max_ongoing_requests)
        if self._user.is_asgi or _ANYIO in sys.modules:
            self._limit_anyio()
        else:  # the replica is ready before what few plain deployments need is imported
            asyncio.get_running_loop().call_later(_LIMIT_ANYIO_S, self._limit_anyio)

    def _limit_anyio(self) -> None:
        """The threads in which starlette and FastAPI run functions that are no coroutines."""
        with suppress(Exception):
            from anyio import to_thread

            to_thread.current_default_thread_limiter().total_tokens = self._config.max_ongoing_requests

    async def reconfigure(self, config: DeploymentConfig, rank: int, world_size: int) -> None:
        """Options that need no new process have changed, or the rank."""
        assert self._user is not None
        old, self._config = self._config, config
        before = context.get_replica_context()
        self._set_context(rank, world_size)
        self._limit_threads()
        if (
            old.user_config != config.user_config
            or before.rank.rank != rank
            or before.world_size != world_size
        ):
            if self._user.hears_of_changes(config.user_config):
                await self._quiet(config.graceful_shutdown_timeout_s)
            await self._user.reconfigure(config.user_config, _rank(rank))

    async def _quiet(self, timeout_s: float) -> None:
        """Wait until no request runs, so that no request sees the state change; new requests are refused meanwhile."""
        deadline = time.monotonic() + timeout_s
        self._is_changing = True
        try:
            while self._ongoing and time.monotonic() < deadline:
                await asyncio.sleep(_IDLE_LOOK_S)
        finally:
            self._is_changing = False

    async def check_health(self) -> JsonObject:
        """Raises what the user's `check_health` raises; else what the replica says for routing and autoscaling."""
        assert self._user is not None
        try:
            await self._user.ask("check_health")
        except BaseException:
            self._metrics.is_healthy(False)
            raise
        self._metrics.is_healthy(True)
        return {}

    async def routing_stats(self) -> dict[str, object]:
        """What the user's `record_routing_stats` returns."""
        assert self._user is not None
        return await self._user.ask("record_routing_stats") or {}

    async def autoscaling_stats(self) -> dict[str, float]:
        """What the user's `record_autoscaling_stats` returns."""
        assert self._user is not None
        return await self._user.ask("record_autoscaling_stats") or {}

    async def parked(self) -> None:
        """Never ends while the replica lives: a caller that waits for it learns of the replica's death at once."""
        await asyncio.Event().wait()

    async def refuse(self) -> None:
        """Take no more requests."""
        self._is_stopping = True

    async def drain(self, wait_s: float, timeout_s: float) -> None:
        """Take no more requests, let those that run end, then end the user's object."""
        self._is_stopping = True
        deadline = time.monotonic() + timeout_s
        if wait_s:
            # Handles that do not know of the end yet still send requests here. Each of these gets a refusal.
            await asyncio.sleep(min(wait_s, timeout_s))
        while self._ongoing and time.monotonic() < deadline:  # a replica without requests ends at once
            await asyncio.sleep(_IDLE_LOOK_S)
        if self._user is not None and self._user.object is not None:
            await self._user.end()
        if self._log is not None:
            self._log.flush()

    # ------------------------------------------------------------------ requests of handles
    def _refusal(self) -> Rejection | None:
        if self._is_stopping or self._is_changing or self._ongoing >= self._config.max_ongoing_requests:
            return Rejection(self._ongoing, self._is_stopping)
        return None

    def _enter(self, meta: RequestMetadata) -> float:
        self._ongoing += 1
        if self._level is not None and not self._level.is_watched:
            self._level.watch()
        context.request_context.set(
            RequestContext(
                meta.route,
                meta.request_id,
                meta.internal_request_id,
                meta.app_name,
                meta.multiplexed_model_id,
                meta.session_id,
                meta.is_http_request,
            )
        )
        return time.perf_counter()

    def _leave(self, meta: RequestMetadata, began: float, status: str, method: str, route: str) -> None:
        self._ongoing -= 1
        seconds = time.perf_counter() - began
        self._metrics.ended(meta.route, seconds, status)
        if self._log is not None:
            self._log.note(meta.request_id, method, route, status, seconds)

    async def handle_request(self, meta: RequestMetadata, /, *args: object, **kwargs: object) -> object:
        """Run one request; a `Rejection` if there is no room."""
        refused = self._refusal()
        if refused is not None:
            return refused
        return await self._handle(meta, args, kwargs)

    async def handle_control(self, meta: RequestMetadata, /, *args: object, **kwargs: object) -> object:
        """Run a request whether there is room or not."""
        return await self._handle(meta, args, kwargs)

    async def _handle(
        self, meta: RequestMetadata, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        assert self._user is not None
        began = self._enter(meta)
        status = "OK"
        try:
            return await self._user.call(meta.call_method, args, kwargs)
        except BaseException as error:
            status = "CANCELLED" if isinstance(error, asyncio.CancelledError) else "ERROR"
            if status == "CANCELLED":
                _drop_children(meta)
            raise
        finally:
            self._leave(meta, began, status, "CALL", meta.call_method)

    async def handle_request_streaming(
        self, meta: RequestMetadata, /, *args: object, **kwargs: object
    ) -> AsyncIterator[object]:
        """Run one request whose method is a generator; a `Rejection` as its only item if there is no room."""
        assert self._user is not None
        refused = self._refusal()
        if refused is not None:
            yield refused
            return
        began = self._enter(meta)
        status = "OK"
        items = self._user.stream(meta.call_method, args, kwargs)
        try:
            async for each in items:
                yield each
        except BaseException as error:
            is_cancel = isinstance(error, (asyncio.CancelledError, GeneratorExit))
            status = "CANCELLED" if is_cancel else "ERROR"
            if is_cancel:
                _drop_children(meta)
            raise
        finally:
            with suppress(Exception):
                await items.aclose()  # type: ignore[attr-defined]
            self._leave(meta, began, status, "CALL", meta.call_method)

    # ------------------------------------------------------------------ HTTP
    async def handle_http(
        self,
        meta: RequestMetadata | bytes,
        scope: Scope | None = None,
        body: bytes = b"",
        more: bool = False,
    ) -> WholeAnswer | StreamedAnswer | Rejection | bytes:
        """Run one HTTP request. Returns its answer, or the beginning of a streamed answer. Packed stays packed."""
        refused = self._refusal()
        if refused is not None:
            return refused
        if type(meta) is bytes:
            meta, scope, found = unpack_request(meta, body)
            if isinstance(found, BodyPlace):
                shared = self._shared_body(found)
                if isinstance(shared, Rejection):
                    return shared
                found = shared
            body = found
            answer = await self._handle_http(meta, scope, body, False)
            if isinstance(answer, WholeAnswer):
                return pack_answer(answer, scope["method"])
            return pack_stream(answer, scope["method"])
        assert scope is not None
        scope["asgi"] = ASGI
        answer = await self._handle_http(meta, scope, bytes(body), more)  # type: ignore[arg-type]
        return beside(answer) if type(answer) is WholeAnswer else answer

    def _shared_body(self, place: BodyPlace) -> bytes | Rejection:
        """A body in a proxy's memory; a refusal if it cannot be read, or is not there any more."""
        try:
            body = self._bodies.read(place)
        except OSError:
            return Rejection(self._ongoing, self._is_stopping, is_body_unreadable=True)
        return Rejection(self._ongoing, self._is_stopping) if body is None else body

    async def _handle_http(
        self, meta: RequestMetadata, scope: Scope, body: bytes, more: bool
    ) -> WholeAnswer | StreamedAnswer:
        user = self._user
        assert user is not None
        began = self._enter(meta)
        if not user.is_asgi and not more and scope["type"] == "http":
            return await self._handle_plain(meta, scope, body, began)
        return await self._handle_app(
            meta, scope, body, more, began, user.object.app if user.is_asgi else None
        )

    async def _handle_plain(
        self, meta: RequestMetadata, scope: Scope, body: bytes, began: float
    ) -> WholeAnswer | StreamedAnswer:
        """A handler without an app: most answers are made without the ASGI protocol."""
        user = self._user
        assert user is not None
        receive = _Body(body)
        status = "500"
        keeps = False
        try:
            result = await user.call_http(scope, receive, meta.call_method)
            if _is_response(result):
                if (
                    hasattr(result, "body_iterator")
                    or result.background is not None
                    or not hasattr(result, "body")
                ):
                    keeps = True
                    return await self._handle_app(meta, scope, body, False, began, result)
                status = str(result.status_code)
                return WholeAnswer(result.status_code, list(result.raw_headers), bytes(result.body))
            if inspect.isgenerator(result) or inspect.isasyncgen(result):
                raise TypeError(
                    "HTTP handlers may not return a generator: return a starlette.responses.StreamingResponse of it."
                )
            status = "200"
            return answer_of(result)
        except asyncio.CancelledError:
            status = "499"
            _drop_children(meta)
            raise
        except Exception as error:
            answer = answer_to_error(error, meta.request_id)
            if isinstance(error, RayServeException) and answer.status != 500:
                status = str(answer.status)
                return answer
            raise
        finally:
            if not keeps:
                self._leave(meta, began, status, scope.get("method", "WS"), scope["path"])

    async def _handle_app(
        self, meta: RequestMetadata, scope: Scope, body: bytes, more: bool, began: float, app: ASGIApp | None
    ) -> WholeAnswer | StreamedAnswer:
        exchange = Exchange(scope, body, more)
        runs = (
            self._run_late(scope, exchange, meta)
            if app is None
            else app(scope, exchange.receive, exchange.send)
        )
        task = exchange.task = asyncio.ensure_future(runs)
        self._running.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._running.discard(done)
            exchange.ended(done)
            if exchange.error is None:
                status = str(exchange.status or 200)
            else:
                status = "499" if isinstance(exchange.error, asyncio.CancelledError) else "500"
                if status == "499":
                    _drop_children(meta)
            self._leave(meta, began, status, scope.get("method", "WS"), scope["path"])

        task.add_done_callback(ended)
        if more or exchange.is_socket:
            self._exchanges[meta.internal_request_id] = exchange
        try:
            answer = await exchange.decided()
        except BaseException:
            task.cancel()
            self._exchanges.pop(meta.internal_request_id, None)
            raise
        if isinstance(answer, StreamedAnswer) and not answer.is_done:
            self._exchanges[meta.internal_request_id] = exchange
        else:
            self._exchanges.pop(meta.internal_request_id, None)
        return answer

    async def _run_late(self, scope: Scope, exchange: Exchange, meta: RequestMetadata) -> None:
        """A handler without an app whose request's body is still coming."""
        assert self._user is not None
        if exchange.is_socket:
            raise RayServeException(
                f"{self._boot.replica_id.deployment_id} is no ASGI app, so it takes no WebSockets: use @serve.ingress."
            )
        result = await self._user.call_http(scope, exchange.receive, meta.call_method)
        if _is_response(result):
            await result(scope, exchange.receive, exchange.send)
            return
        answer = answer_of(result)
        await exchange.send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        await exchange.send({"type": "http.response.body", "body": answer.body})

    async def http_stream(self, internal_id: str) -> AsyncIterator[list[Message]]:
        """The rest of a stream, as it comes. A reader that stops reading stops the app."""
        exchange = self._exchanges.get(internal_id)
        if exchange is None:
            return
        is_over = False
        try:
            while not is_over:
                messages, is_over = await exchange.next()
                if messages:
                    yield [piece_beside(each) for each in messages]
            if exchange.task is not None and not exchange.task.done() and exchange.is_socket:
                await asyncio.wait([exchange.task], timeout=1)
            if exchange.error is not None:
                raise exchange.error
        finally:
            self._exchanges.pop(internal_id, None)
            if not is_over and exchange.task is not None:
                exchange.task.cancel()

    async def http_input(self, internal_id: str, messages: list[Message]) -> bool:
        """What the client has sent since. False: the app does not listen any more."""
        exchange = self._exchanges.get(internal_id)
        if exchange is None:
            return False
        exchange.put(messages)
        return True


class _Body:
    """ASGI receive of a request whose body is here; later questions wait for a disconnect, which cancels instead."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def __call__(self) -> dict[str, object]:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body or b"", "more_body": False}


def _rank(rank: int) -> ReplicaRank:
    """Not checked: what checks it would be built in each replica, and look through all installed packages before."""
    return ReplicaRank.model_construct(rank=rank, node_rank=0, local_rank=rank)


def _is_response(value: object) -> TypeGuard[Response]:
    if type(value) in _PLAIN:
        return False
    from starlette.responses import Response

    return isinstance(value, Response)


def _drop_children(meta: RequestMetadata) -> None:
    """Cancel the waiting requests that a cancelled request has made. The runtime cancels the running ones."""
    from sundog.serve import client as clients

    found = clients._client
    if found is None:
        return
    for router in list(found.routers.values()):
        for call in list(router.pending):
            if call.parent == meta.internal_request_id:
                call.cancel()
