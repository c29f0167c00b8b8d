"""Which replica a request goes to: the least busy of two that are drawn at random.

::

    handle.remote() ──► a replica with room?  yes ──► sent at once, from the caller's thread
                               no │
                                  ▼
                        waits here, first come first served ──► sent when a place is free, or a replica comes

Owns the requests that this process has sent to one deployment, or keeps until they can be. How busy a replica is,
every process on this machine reads from the board (`board.py`). A replica that is full or stopping refuses; the
request then goes to another. What a custom request router decides is asked for in the loop of the process
(`client.py`).

Any thread, under the lock.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from concurrent.futures import Future
from pickle import PickleBuffer
from typing import TYPE_CHECKING

from sundog.exceptions import RayActorError, RayTaskError, TaskCancelledError
from sundog.serve.board import QueueBoard
from sundog.serve.calls import Call
from sundog.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException
from sundog.serve.replica_view import Replica
from sundog.serve.rows import (
    DeploymentID,
    Rejection,
    RequestMetadata,
)
from sundog.serve.stages import stage_of
from sundog.serve.targets import DeploymentTargets
from sundog.util import metrics

if TYPE_CHECKING:
    from sundog.refs import ObjectRef
    from sundog.serve.client import Client
    from sundog.serve.config import RequestRouterConfig
    from sundog.serve.custom_routing import CustomRouting
    from sundog.util.metrics import Gauge

_LOOK_AGAIN_S = 0.01  # while requests wait: slots that other processes free are not announced
_TRIES_MAX = 200
_IN_BAND_MAX_BYTES = 64 * 1024
_NO_MODEL = RequestMetadata("", "")


class Router:
    """All requests of this process to one deployment."""

    def __init__(self, client: Client, deployment: DeploymentID, is_proxy: bool = False) -> None:
        self.client, self.deployment, self.is_proxy = client, deployment, is_proxy
        self.lock = threading.RLock()
        self.targets: DeploymentTargets | None = None
        self.replicas: list[Replica] = []
        self.by_id: dict[object, Replica] = {}
        self.pending: deque[Call] = deque()
        self.resolving = 0  # requests whose arguments are not ready
        self.custom: CustomRouting | None = None
        self.known = threading.Event()
        self._looking = False
        self._backoff: RequestRouterConfig | None = None  # the config whose backoff the user has chosen
        self._pauses = 0
        self._queue_marks = 0
        self._queue_gauge: Gauge | None = None
        self._told_queue, self._told_s = 0, 0.0
        self._poked_s = 0.0
        self.answered: dict[str, list[float]] = {}  # by replica: requests, errors, seconds

    # ------------------------------------------------------------------ what the controller says
    def update(self, targets: DeploymentTargets) -> None:
        """The deployment has changed: its replicas, or its options."""
        with self.lock:
            first, self.targets = self.targets is None, targets
            kept: dict[object, Replica] = {}
            for info in targets.replicas:
                replica = self.by_id.get(info.replica_id)
                if replica is None or replica.is_gone:
                    replica = Replica(info)
                else:
                    replica.update(info)
                kept[info.replica_id] = replica
            self.by_id, self.replicas = kept, list(kept.values())
            self._choose_router(targets, first)
            if self.custom is not None:
                self.client.soon(self.custom.refresh, self.replicas)
        self.known.set()
        if not targets.exists or not targets.is_available:
            self._fail_pending(targets)
        self.pump()
        if first and targets.max_queued_requests >= 0:
            self._shed(targets)

    def knows(self, targets: DeploymentTargets) -> bool:
        """Whether requests may go to each of these replicas."""
        with self.lock:
            return all(info.replica_id in self.by_id for info in targets.replicas)

    def _choose_router(self, targets: DeploymentTargets, first: bool) -> None:
        config = targets.router_config
        chosen = config is not None and "initial_backoff_s" in config.model_fields_set
        self._backoff = config if chosen else None
        if config is None or config.is_default_request_router():
            self.custom = None
        elif first or self.custom is None or self.custom.config != config:
            from sundog.serve.custom_routing import CustomRouting

            self.custom = CustomRouting(self, config)

    def _shed(self, targets: DeploymentTargets) -> None:
        """Requests came before the limit was known: drop those that are too many, the latest first."""
        with self.lock:
            limit = targets.max_queued_requests
            extra = [self.pending.pop() for _ in range(max(0, len(self.pending) - limit))]
            self._mark_queue()
        for call in extra:
            call.fail(
                BackPressureError(limit, limit, targets.backpressure_status, targets.backpressure_retry_s)
            )

    def _fail_pending(self, targets: DeploymentTargets) -> None:
        with self.lock:
            waiting, self.pending = list(self.pending), deque()
            self._mark_queue()
        for call in waiting:
            call.fail(self._absent_error(targets))

    def _absent_error(self, targets: DeploymentTargets) -> RayServeException:
        if not targets.exists:
            return RayServeException(f"{self.deployment} does not exist; it may have been deleted.")
        return DeploymentUnavailableError(self.deployment)

    # ------------------------------------------------------------------ requests
    def assign(self, meta: RequestMetadata, args: tuple[object, ...], kwargs: dict[str, object]) -> Call:
        """Send a request to a replica, or keep it until one takes it."""
        call = Call(self, meta, args, kwargs)
        if _has_responses(args, kwargs):
            call.wait()
            with self.lock:
                self.resolving += 1
            self.client.run(self._resolve_then_send(call))
            return call
        self._place(call)
        return call

    def assign_http(self, meta: RequestMetadata, scope: dict[str, object], body: bytes, more: bool) -> Call:
        """The same for an HTTP request."""
        sent: object = (
            PickleBuffer(body) if len(body) > _IN_BAND_MAX_BYTES else body
        )  # not copied into the pickle
        call = Call(self, meta, (scope, sent, more), {})
        self._place(call)
        return call

    def place_quick(self, *request: object) -> tuple[Replica, ObjectRef[object]] | None:
        """Send a packed HTTP request to a replica: the replica, and the ref of its answer. None: none takes it now."""
        with self.lock:
            if self.pending or self.custom is not None:
                return None
            replica = self._choose(_NO_MODEL)
            if replica is None:
                return None
            self._count(replica, 1)
        try:
            return replica, replica.http.remote(*request)
        except BaseException:
            self.release(replica)
            return None  # the long path meets the same error and reports it

    def quick_ended(self, replica: Replica, began: float) -> None:
        """A packed request is answered."""
        with self.lock:
            self._count(replica, -1)
            self._note(replica, began, failed=False)
        if self.pending:
            self.pump()

    def adopt(
        self,
        meta: RequestMetadata,
        args: tuple[object, ...],
        replica: Replica,
        ref: ObjectRef[object],
        began: float,
    ) -> Call:
        """A packed request that needs more care: the call that it is from now on."""
        call = Call(self, meta, args, {})
        stage = stage_of(ref)
        call.sent(replica, ref, None, stage)
        stage.add_done_callback(lambda done: self._ended(call, replica, done, began))
        return call

    def _place(self, call: Call) -> None:
        with self.lock:
            replica = None
            if not self.pending and self.custom is None:
                replica = self._choose(call.meta)
            if replica is None:
                self._keep(call)
                return
            self._count(replica, 1)
        self.send(call, replica)

    def _keep(self, call: Call) -> None:
        targets = self.targets
        if call.current is None or call.current.done():
            call.wait()
        if targets is not None and (not targets.exists or not targets.is_available):
            call.fail(self._absent_error(targets))
            return
        limit = -1 if targets is None else targets.max_queued_requests
        if limit >= 0 and self._queued() >= limit and call.tries == 0:
            assert targets is not None
            call.fail(
                BackPressureError(
                    self._queued(), limit, targets.backpressure_status, targets.backpressure_retry_s
                )
            )
            return
        if call.tries:
            self.pending.appendleft(call)
        else:
            self.pending.append(call)
        self._mark_queue()
        if self.custom is not None:
            call.waiting_on = self.client.run(self.custom.route(call))
        else:
            self._look_soon()
        if not self.replicas:
            self._poke()

    def _queued(self) -> int:
        """How many requests wait; the requests of all proxies count as one caller's, as the proxies share a port."""
        board, targets = self.client.board, self.targets
        if self.is_proxy and board is not None and targets is not None and targets.board_row >= 0:
            return board.total(targets.board_row)
        return len(self.pending)

    def _tell_queue(self) -> None:
        """The gauge of requests that wait: at each change to or from none, else ten times a second."""
        count, now = len(self.pending), time.monotonic()
        if bool(count) != bool(self._told_queue) or (count and now - self._told_s > 0.1):
            if self._queue_gauge is None:
                self._queue_gauge = metrics.Gauge(
                    "serve_deployment_queued_queries",
                    "Requests that wait for a replica, in this process.",
                    ("deployment", "application"),
                ).set_default_tags(
                    {"deployment": self.deployment.name, "application": self.deployment.app_name}
                )
            self._queue_gauge.set(count)
            self._told_queue, self._told_s = count, now

    def _mark_queue(self) -> None:
        self._tell_queue()
        board, targets = self.client.board, self.targets
        if self.is_proxy and board is not None and targets is not None and targets.board_row >= 0:
            change = len(self.pending) - self._queue_marks
            if change:
                board.add(targets.board_row, change)
                self._queue_marks += change

    def _poke(self) -> None:
        """Nothing can take the request: tell the controller now, which may have scaled to zero."""
        now = time.monotonic()
        if now - self._poked_s > 0.2:
            self._poked_s = now
            self.client.soon(self.client.report_now)

    # ------------------------------------------------------------------ choosing
    def busy(self, replica: Replica) -> int:
        """How many requests are with a replica, or on their way to it, from all processes."""
        board = self.client.board
        if board is None or replica.row < 0:
            return replica.mine
        return max(replica.mine, board.total(replica.row))

    def _choose(self, meta: RequestMetadata) -> Replica | None:
        replicas = self.replicas
        if len(replicas) == 1:
            only = replicas[0]
            return only if not only.is_gone and self.busy(only) < only.limit else None
        found = [each for each in replicas if not each.is_gone]
        if meta.multiplexed_model_id:
            found = self._with_model(found, meta.multiplexed_model_id)
        elif any(each.share != 1.0 for each in found):
            found = _by_share(found)
        while found:
            if len(found) <= 2:
                drawn = found
            else:
                drawn = random.sample(found, 2)
            best = min(drawn, key=lambda each: (self.busy(each), random.random()))
            if self.busy(best) < best.limit:
                return best
            found = [each for each in found if each not in drawn]
        return None

    def _with_model(self, replicas: list[Replica], model: str) -> list[Replica]:
        """The replicas with a model loaded and room; else those with room that have fewest models."""
        having = [each for each in replicas if model in each.models and self.busy(each) < each.limit]
        if having:
            return having
        free = [each for each in replicas if self.busy(each) < each.limit]
        fewest = min((len(each.models) for each in free), default=0)
        return [each for each in free if len(each.models) == fewest]

    def _count(self, replica: Replica, change: int) -> None:
        replica.mine += change
        board = self.client.board
        if board is not None and replica.row >= 0:
            board.add(replica.row, change)

    # ------------------------------------------------------------------ sending
    def send(self, call: Call, replica: Replica) -> None:
        """Send a request to a replica whose place is counted already."""
        try:
            if call.meta.is_streaming:
                generator = replica.stream.remote(call.meta, *call.args, **call.kwargs)
                ref = generator.completed()
            else:
                generator = None
                method = replica.http if call.meta.is_http_request else replica.call
                ref = method.remote(call.meta, *call.args, **call.kwargs)
            stage = stage_of(ref)
        except BaseException as error:
            with self.lock:
                self._count(replica, -1)
            call.fail(error)
            return
        began = time.perf_counter()
        call.sent(replica, ref, generator, stage)
        stage.add_done_callback(lambda done: self._ended(call, replica, done, began))
        if call.is_cancelled:
            import sundog

            sundog.cancel(generator if generator is not None else ref)

    def _ended(self, call: Call, replica: Replica, done: Future[object], began: float) -> None:
        error = done.exception()
        with self.lock:
            self._count(replica, -1)
            if error is not None and isinstance(error, RayActorError) and not isinstance(error, RayTaskError):
                self._lose(replica)
        if self.custom is not None:
            self.custom.completed(call, replica)
        if error is not None:
            if isinstance(error, RayActorError) and not isinstance(error, RayTaskError):
                call.may_go_elsewhere(done, error)
            if not isinstance(error, TaskCancelledError):
                self._note(replica, began, failed=True)
        elif call.generator is None and not call.was_refused(done, done.result()):
            self._note(replica, began, failed=False)
        if self.pending:
            self.pump()

    def _note(self, replica: Replica, began: float, failed: bool) -> None:
        """Numbers that a rolling update is judged by: requests, errors, seconds, for each replica."""
        row = self.answered.setdefault(replica.id.unique_id, [0, 0, 0.0])
        row[0] += 1
        row[1] += failed
        row[2] += time.perf_counter() - began

    def _lose(self, replica: Replica) -> None:
        replica.is_gone = True
        if self.by_id.get(replica.id) is replica:
            self.replicas = [each for each in self.replicas if each is not replica]

    def retry(self, call: Call, stage: Future[object]) -> None:
        """A replica did not take a request: look for another one. Once, however many callers notice."""
        with call.lock:
            if call.current is not stage:
                return
            call.tries += 1
            call.wait()
            call.ref = call.generator = None
        if call.tries > _TRIES_MAX * 100:
            call.fail(RayServeException(f"No replica of {self.deployment} takes the request."))
        elif call.is_cancelled:
            call.fail(TaskCancelledError(f"Request {call.meta.request_id} was cancelled."))
        else:
            with self.lock:
                self._keep(call)

    def pump(self) -> None:
        """Send what waits, as long as there is room."""
        if self.custom is not None:
            with self.lock:
                for call in self.pending:  # requests that came before the router was known
                    if call.waiting_on is None:
                        call.waiting_on = self.client.run(self.custom.route(call))
            return
        if self._backoff is not None and self._looking:
            return  # the user has chosen a backoff
        while True:
            with self.lock:
                while self.pending and (self.pending[0].current is None or self.pending[0].current.done()):
                    self.pending.popleft()  # the caller gave up
                if not self.pending:
                    self._pauses = 0
                    self._mark_queue()
                    return
                replica = self._choose(self.pending[0].meta)
                if replica is None:
                    self._look_soon()
                    return
                call = self.pending.popleft()
                self._mark_queue()
                self._count(replica, 1)
            self.send(call, replica)

    def _look_soon(self) -> None:
        if not self._looking:
            self._looking = True
            self.client.soon(self.client.loop.call_later, self._pause_s(), self._look)

    def _pause_s(self) -> float:
        """How long to wait before the next look for a place."""
        rules = self._backoff
        if rules is None:
            return _LOOK_AGAIN_S
        pause_s = rules.initial_backoff_s * rules.backoff_multiplier**self._pauses
        self._pauses += 1
        return float(min(pause_s, rules.max_backoff_s))

    def _look(self) -> None:
        self._looking = False
        self.pump()

    def forget(self, call: Call) -> None:
        """A request that waits here is given up."""
        with self.lock:
            if call in self.pending:
                self.pending.remove(call)
            self._mark_queue()
            if call.waiting_on is not None:
                call.waiting_on.cancel()

    async def _resolve_then_send(self, call: Call) -> None:
        """Replace responses among the arguments by what they became."""
        try:
            call.args = tuple([await self._resolved(each) for each in call.args])
            call.kwargs = {name: await self._resolved(each) for name, each in call.kwargs.items()}
        except BaseException as error:
            call.fail(error)
            if not isinstance(error, Exception):
                raise
            return
        finally:
            with self.lock:
                self.resolving -= 1
        if call.current is not None and not call.current.done():
            self._place(call)

    async def _resolved(self, value: object) -> object:
        from sundog.serve.handle import DeploymentResponse, DeploymentResponseGenerator

        if isinstance(value, DeploymentResponseGenerator):
            raise RuntimeError(
                "An argument of this call is a DeploymentResponseGenerator. A handle takes no streamed answer as an "
                "argument: read its items first and pass those."
            )
        if not isinstance(value, DeploymentResponse):
            return value
        try:
            return await value._to_object_ref()
        except RayActorError as error:
            if isinstance(error, RayTaskError):
                raise
            raise RayServeException(
                f"The request to {self.deployment} was not sent. One of its arguments is an answer of "
                f"{value._call.router.deployment}, whose replica died before the answer came: {error}"
            ) from error

    # ------------------------------------------------------------------ questions
    def running(self) -> list[Replica]:
        """The replicas that take requests."""
        with self.lock:
            return [each for each in self.replicas if not each.is_gone]

    def metrics(self) -> tuple[int, dict[str, int]]:
        """How many requests wait here, and how many each replica has from here."""
        with self.lock:
            waiting = len(self.pending) + self.resolving
            return waiting, {each.id.unique_id: each.mine for each in self.replicas if each.mine}

    async def reserve(self, meta: RequestMetadata) -> Replica:
        """A replica with a place that is counted, for `choose_replica`."""
        while True:
            with self.lock:
                replica = self._choose(meta)
                if replica is not None:
                    self._count(replica, 1)
                    return replica
                targets = self.targets
            if targets is not None and not targets.is_available:
                raise self._absent_error(targets)
            await asyncio.sleep(_LOOK_AGAIN_S)

    def release(self, replica: Replica) -> None:
        """Give the place back."""
        with self.lock:
            self._count(replica, -1)
        self.pump()


def _by_share(replicas: list[Replica]) -> list[Replica]:
    """One of two versions, by the share of requests that the canary is to get."""
    canary = [each for each in replicas if each.share != 1.0]
    others = [each for each in replicas if each.share == 1.0]
    if not others or (canary and random.random() < canary[0].share):
        return canary
    return others


def _has_responses(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    from sundog.serve.handle import DeploymentResponse, DeploymentResponseGenerator

    kinds = (DeploymentResponse, DeploymentResponseGenerator)
    return any(isinstance(each, kinds) for each in args) or any(
        isinstance(each, kinds) for each in kwargs.values()
    )


__all__ = ["QueueBoard", "Rejection", "Replica", "Router"]
