"""Handles: how deployments are called from Python, in another deployment or in the user's own program.

Owns handles, their options and the responses that their calls return. Where a request goes is decided in `router.py`.
Runs in any process and thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import sundog
from sundog.exceptions import GetTimeoutError, RayActorError, RayTaskError, TaskCancelledError
from sundog.serve import client as clients
from sundog.serve import context
from sundog.serve.broadcasts import DeploymentBroadcastResponse
from sundog.serve.calls import Call
from sundog.serve.exceptions import RayServeException, ReplicaUnavailableError, RequestCancelledError
from sundog.serve.request_ids import new_request_id, next_internal_id
from sundog.serve.rows import UNSET as _UNSET
from sundog.serve.rows import DeploymentHandleSource, DeploymentID, RequestMetadata, random_name
from sundog.serve.stages import awaitable
from sundog.util import metrics

if TYPE_CHECKING:
    from collections.abc import Generator
    from concurrent.futures import Future
    from contextlib import AbstractAsyncContextManager
    from typing import NoReturn

    from sundog.plain import JsonObject
    from sundog.serve.replica_view import Replica
    from sundog.serve.router import Router

R = TypeVar("R")
T = TypeVar("T")


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@dataclass(frozen=True)
class HandleOptions:
    """What `.options()` of a handle sets."""

    method_name: str = "__call__"
    multiplexed_model_id: str = ""
    session_id: str = ""
    stream: bool = False
    _by_reference: bool = True
    request_serialization: str = "cloudpickle"
    response_serialization: str = "cloudpickle"


@dataclass
class InitOptions:
    """How a handle was made."""

    _prefer_local_routing: bool = False
    _source: DeploymentHandleSource = DeploymentHandleSource.UNKNOWN
    _run_router_in_separate_loop: bool = True


@dataclass
class ReplicaSelection:
    """The replica that `choose_replica` found, with a place kept there."""

    replica_id: str
    node_ip: str
    port: int | None
    node_id: str
    availability_zone: str | None
    replica_metadata: dict[str, object]
    _replica: Replica
    _deployment_id: DeploymentID | None
    _request_metadata: RequestMetadata
    _dispatched: bool = field(default=False, init=False)

    @property
    def address(self) -> str:
        """Where it is."""
        return f"{self.node_ip}:{self.port}" if self.port else self.node_ip

    def to_dict(self) -> JsonObject:
        """The facts, without what dispatching needs."""
        names = ("replica_id", "node_ip", "port", "node_id", "availability_zone", "replica_metadata")
        return {name: getattr(self, name) for name in names}


class _Response(Generic[R]):
    """What responses of both kinds have."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._cancelled = False

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self._call.meta.request_id

    @property
    def by_reference(self) -> bool:
        """Whether arguments and results may be refs; always."""
        return True

    def cancel(self) -> None:
        """Cancel the request: a waiting request is dropped, a running one gets `asyncio.CancelledError`."""
        self._cancelled = True
        self._call.cancel()

    def cancelled(self) -> bool:
        """Whether `cancel()` was called."""
        return self._cancelled

    def _error(self, error: BaseException) -> BaseException:
        """The error as users of Serve know it."""
        if isinstance(error, RequestCancelledError):
            return error
        if isinstance(error, TaskCancelledError) and (self._cancelled or not isinstance(error, RayTaskError)):
            return RequestCancelledError(self.request_id)
        cause = getattr(error, "cause", None)
        if isinstance(error, RayTaskError) and isinstance(cause, RayServeException):
            return cause
        return error


class DeploymentResponse(_Response[R]):
    """The answer of a call that may not be there yet: `await` it, ask for `result()`, or pass it to another call."""

    def __await__(self) -> Generator[object, None, R]:
        return self._answer().__await__()

    async def _answer(self) -> R:
        call = self._call
        while True:
            stage = call.current
            assert stage is not None
            try:
                value = await awaitable(stage)
            except asyncio.CancelledError:
                if self._cancelled:
                    raise RequestCancelledError(self.request_id) from None
                raise
            except RayActorError as error:
                if call.may_go_elsewhere(stage, error):
                    continue
                raise
            except Exception as error:
                raise self._error(error) from None
            if not call.was_refused(stage, value):
                return value  # type: ignore[return-value]  # what the method gave

    def result(self, *, timeout_s: float | None = None, _skip_asyncio_check: bool = False) -> R:
        """Wait for the answer.

        Raises:
            TimeoutError: it did not come in time.
            RequestCancelledError: the request was cancelled.
            RuntimeError: called in an event loop, which it would block.
        """
        if not _skip_asyncio_check and _in_loop():
            raise RuntimeError(
                "`result()` would block the event loop that this code runs in. Write `await response` here."
            )
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        call = self._call
        while True:
            stage = call.current
            assert stage is not None
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                value = stage.result(left)
            except RayActorError as error:
                if call.may_go_elsewhere(stage, error):
                    continue
                raise
            except TimeoutError as error:
                if stage.done() and not stage.cancelled() and stage.exception() is error:
                    raise self._error(error) from None  # the user's code ran into a time limit of its own
                raise GetTimeoutError("Timed out waiting for the response.", timeout_s=timeout_s) from None
            except Exception as error:
                raise self._error(error) from None
            if not call.was_refused(stage, value):
                return value  # type: ignore[return-value]  # what the method gave

    async def _to_object_ref(self) -> object:
        """The ref of the result, once it is there: to be passed to tasks and actors."""
        await self._answer()
        return self._call.ref

    def _to_object_ref_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> object:
        self.result(timeout_s=_timeout_s, _skip_asyncio_check=_allow_running_in_asyncio_loop)
        return self._call.ref

    def __reduce__(self) -> NoReturn:
        raise RayServeException(
            "A `DeploymentResponse` cannot be pickled. A handle's call takes it as an argument of its own, not inside "
            "a list, a dict or another object."
        )


class DeploymentResponseGenerator(_Response[R]):
    """The answer of a streaming call: iterate with `for` or `async for`."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._begun = False

    def __await__(self) -> NoReturn:
        raise TypeError(
            "A `DeploymentResponseGenerator` has many items, so `await` does not take it. Iterate with `async for`, or "
            "await one item: `await response.__anext__()`."
        )

    def result(self, **_given: object) -> NoReturn:
        """A stream has no single result."""
        raise TypeError(
            "A `DeploymentResponseGenerator` has many items, so it has no `.result()`. Iterate: with `async for` in a "
            "deployment, with `for` elsewhere."
        )

    def __aiter__(self) -> AsyncIterator[R]:
        return self

    def __iter__(self) -> Iterator[R]:
        return self

    async def __anext__(self) -> R:
        call = self._call
        while True:
            stage, generator = call.current, call.generator
            assert stage is not None
            try:
                if generator is None:
                    await awaitable(stage)
                    continue
                value = await (await generator.__anext__())
            except asyncio.CancelledError:
                if self._cancelled:
                    raise RequestCancelledError(self.request_id) from None
                raise
            except Exception as error:
                if self._goes_on(stage, error):
                    continue
                raise self._error(error) from None
            if not self._begun and call.was_refused(stage, value):
                continue
            self._begun = True
            return value  # type: ignore[return-value]  # what the generator gave

    def __next__(self) -> R:
        if _in_loop():
            raise RuntimeError(
                "`for` and `next()` would block the event loop that this code runs in. Iterate with `async for` here, "
                "or await one item: `await response.__anext__()`."
            )
        call = self._call
        while True:
            stage, generator = call.current, call.generator
            assert stage is not None
            try:
                if generator is None:
                    stage.result()
                    continue
                value = sundog.get(next(generator))
            except StopIteration:
                raise
            except Exception as error:
                if self._goes_on(stage, error):
                    continue
                raise self._error(error) from None
            if not self._begun and call.was_refused(stage, value):
                continue
            self._begun = True
            return value  # type: ignore[return-value]  # what the generator gave

    def _goes_on(self, stage: Future[object], error: BaseException) -> bool:
        if self._begun or not isinstance(error, RayActorError):
            return False
        return self._call.may_go_elsewhere(stage, error)

    async def _to_object_ref_gen(self) -> object:
        while self._call.generator is None:
            assert self._call.current is not None
            await awaitable(self._call.current)
        return self._call.generator

    def _to_object_ref_gen_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> object:
        while self._call.generator is None:
            assert self._call.current is not None
            self._call.current.result(_timeout_s)
        return self._call.generator


class DeploymentHandle(Generic[T]):
    """Calls a deployment: `handle.remote(...)`, `handle.method.remote(...)`."""

    def __init__(
        self,
        deployment_name: str,
        app_name: str,
        *,
        handle_options: HandleOptions | None = None,
        init_options: InitOptions | None = None,
        _counter: metrics.Counter | None = None,
        _handle_id: str | None = None,
    ) -> None:
        self.deployment_id = DeploymentID(deployment_name, app_name)
        self.handle_options = handle_options or HandleOptions()
        self.init_options = init_options
        self.handle_id = _handle_id or random_name()
        self._counter = _counter
        self._router: Router | None = None

    @property
    def deployment_name(self) -> str:
        """The deployment's name."""
        return self.deployment_id.name

    @property
    def app_name(self) -> str:
        """The application's name."""
        return self.deployment_id.app_name

    @property
    def is_initialized(self) -> bool:
        """Whether this handle has been used."""
        return self.init_options is not None

    @property
    def request_counter(self) -> metrics.Counter:
        """Counts the calls made through this handle."""
        if self._counter is None:
            where = self.deployment_id
            self._counter = metrics.Counter(
                "serve_handle_request_counter",
                description="Calls made through this handle.",
                tag_keys=("handle", "deployment", "route", "application"),
            ).set_default_tags(
                {
                    "handle": f"{where.app_name}#{where.name}#{self.handle_id}",
                    "deployment": where.name,
                    "application": where.app_name,
                }
            )
        return self._counter

    def _init(
        self,
        *,
        _prefer_local_routing: bool = False,
        _source: DeploymentHandleSource | None = None,
        _run_router_in_separate_loop: bool = True,
    ) -> None:
        """Choose how the handle routes, before it is used."""
        if self.init_options is not None:
            raise RuntimeError(
                f"The handle of {self.deployment_id} is in use, so `._init()` comes too late. Call it before the first "
                "`.options()` or `.remote()`."
            )
        in_replica = context._get_internal_replica_context() is not None
        if _source is None:
            _source = DeploymentHandleSource.REPLICA if in_replica else DeploymentHandleSource.UNKNOWN
        self.init_options = InitOptions(_prefer_local_routing, _source, _run_router_in_separate_loop)
        self._live_router()

    def _live_router(self) -> Router:
        router = self._router
        if router is None or router.client.is_over():
            if self.init_options is None:
                self._init()
                assert self._router is not None
                return self._router
            router = self._router = clients.connect().router(self.deployment_id)
        return router

    def running_replicas_populated(self) -> bool:
        """Whether the handle knows of a replica."""
        return bool(self._live_router().replicas)

    def options(
        self,
        *,
        method_name: str = _UNSET,
        multiplexed_model_id: str = _UNSET,
        session_id: str = _UNSET,
        stream: bool = _UNSET,
        _prefer_local_routing: bool = _UNSET,
        _by_reference: bool = _UNSET,
        request_serialization: str = _UNSET,
        response_serialization: str = _UNSET,
    ) -> DeploymentHandle[T]:
        """The same handle with other options."""
        given = {
            "method_name": method_name,
            "multiplexed_model_id": multiplexed_model_id,
            "session_id": session_id,
            "stream": stream,
            "_by_reference": _by_reference,
            "request_serialization": request_serialization,
            "response_serialization": response_serialization,
        }
        chosen = {name: value for name, value in given.items() if value is not _UNSET}
        if self.init_options is None:
            self._live_router()
        made: DeploymentHandle[T] = DeploymentHandle(
            self.deployment_name,
            self.app_name,
            handle_options=replace(self.handle_options, **chosen),  # type: ignore[arg-type]
            init_options=self.init_options,
            _counter=self.request_counter,
            _handle_id=self.handle_id,
        )
        made._router = self._router
        return made

    def __getattr__(self, name: str) -> DeploymentHandle[T]:
        if name.startswith("__"):
            raise AttributeError(name)
        made = self.options(method_name=name)
        if not name.startswith("_"):
            self.__dict__[name] = made  # the next look-up does not reach this function
        return made

    def _metadata(self, method: str | None = None, stream: bool | None = None) -> RequestMetadata:
        options, request = self.handle_options, context.request_context.get()
        return RequestMetadata(
            request.request_id or new_request_id(),
            next_internal_id(),
            method or options.method_name,
            request.route,
            self.deployment_id.app_name,
            options.multiplexed_model_id,
            options.session_id,
            options.stream if stream is None else stream,
        )

    def remote(self, *args: object, **kwargs: object) -> Any:
        """Call the deployment; returns a `DeploymentResponse`, or with `stream=True` a generator."""
        router = self._live_router()
        meta = self._metadata()
        self.request_counter.inc(tags={"route": meta.route, "application": meta.app_name})
        call = router.assign(meta, args, kwargs)
        return DeploymentResponseGenerator(call) if meta.is_streaming else DeploymentResponse(call)

    @asynccontextmanager
    async def _choose(self) -> AsyncIterator[ReplicaSelection]:
        router = self._live_router()
        meta = self._metadata()
        replica = await router.reserve(meta)
        info = replica.info
        selection = ReplicaSelection(
            replica.id.unique_id,
            info.node_ip,
            None,
            info.node_id,
            None,
            dict(info.replica_metadata),
            replica,
            self.deployment_id,
            meta,
        )
        try:
            yield selection
        finally:
            if not selection._dispatched:
                router.release(replica)

    def choose_replica(
        self, *_args: object, **_kwargs: object
    ) -> AbstractAsyncContextManager[ReplicaSelection]:
        """A context manager: the replica that a request would go to, with a place kept there until the block ends."""
        return self._choose()

    def dispatch(self, selection: ReplicaSelection, *args: object, **kwargs: object) -> Any:
        """Send a request to the replica that `choose_replica` found.

        Raises:
            ValueError: the selection is another deployment's.
            RuntimeError: it was used before.
        """
        if selection._deployment_id != self.deployment_id:
            raise ValueError(
                f"This selection was made for {selection._deployment_id}, not for {self.deployment_id}."
            )
        if selection._dispatched:
            raise RuntimeError(
                f"The selection of replica {selection.replica_id} has already been dispatched."
            )
        selection._dispatched = True
        meta = selection._request_metadata
        router = self._live_router()
        self.request_counter.inc(tags={"route": meta.route, "application": meta.app_name})
        call = Call(router, meta, args, kwargs)
        if selection._replica.is_gone:
            call.fail(ReplicaUnavailableError(selection.replica_id))
            router.release(selection._replica)
        else:
            router.send(call, selection._replica)
        return DeploymentResponseGenerator(call) if meta.is_streaming else DeploymentResponse(call)

    def broadcast(self, method_name: str, *args: object, **kwargs: object) -> DeploymentBroadcastResponse:
        """Call a method on every replica."""
        router = self._live_router()
        meta = self._metadata(method_name, stream=False)
        self.request_counter.inc(tags={"route": meta.route, "application": meta.app_name})
        return DeploymentBroadcastResponse(router, meta, args, kwargs)

    def shutdown(self) -> None:
        """Release what the handle knows of replicas; a later call asks again."""
        self._router = None

    async def shutdown_async(self) -> None:
        """The same, for coroutines."""
        self.shutdown()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.deployment_name, self.app_name, self.handle_options))

    def __repr__(self) -> str:
        return f"DeploymentHandle(deployment='{self.deployment_name}', app='{self.app_name}')"


def _rebuild(name: str, app: str, options: HandleOptions) -> DeploymentHandle[object]:
    return DeploymentHandle(name, app, handle_options=options)
