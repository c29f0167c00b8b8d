"""Local testing mode: deployments in the caller's own process, for tests that need no session.

Owns the handles and responses of that mode; they have the same methods as the real ones. User code runs in the
event loop of one thread. No HTTP, no replicas, no limits.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from typing import TYPE_CHECKING, Any

from sundog.serve import context
from sundog.serve.context import ReplicaContext, RequestContext
from sundog.serve.deployment import Deployment
from sundog.serve.exceptions import RayServeException, RequestCancelledError
from sundog.serve.handle import (
    DeploymentHandle,
    DeploymentResponse,
    DeploymentResponseGenerator,
    HandleOptions,
    InitOptions,
)
from sundog.serve.request_ids import new_request_id
from sundog.serve.rows import DeploymentID, ReplicaID, random_name
from sundog.serve.schema import ReplicaRank
from sundog.serve.user_code import UserCode

if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import NoReturn

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _user_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, daemon=True, name="sundog-serve-local")
            _thread.start()
        return _loop


_made: list[UserCode] = []
_thread: threading.Thread | None = None


def stop() -> None:
    """End the thread and whatever runs in it."""
    global _loop
    with _lock:
        loop, _loop = _loop, None
    if loop is not None and _thread is not None:
        loop.call_soon_threadsafe(loop.stop)
        _thread.join(2)
        loop.close()
    while _made:
        _made.pop().close()


def make_local_handle(deployment: Deployment, where: DeploymentID) -> LocalHandle:
    """Make the object of a deployment in this process; returns a handle to it."""
    config = deployment._replica_config
    user = UserCode(config.definition, config.init_args, config.init_kwargs)
    _made.append(user)
    replica = ReplicaContext(
        ReplicaID(random_name(), where), user.make(), deployment._deployment_config, ReplicaRank(rank=0), 1
    )

    async def make() -> None:
        context.enter_local_replica(replica)
        await user.construct()
        await user.reconfigure(deployment._deployment_config.user_config, ReplicaRank(rank=0))

    asyncio.run_coroutine_threadsafe(make(), _user_loop()).result()
    return LocalHandle(user, where, replica)


class _Meta:
    def __init__(self) -> None:
        self.request_id = new_request_id()


class _LocalCall:
    """Stands for the call of a response."""

    def __init__(self, future: Future[None] | Future[object]) -> None:
        self.current, self.meta = future, _Meta()

    def cancel(self) -> None:
        """Give the request up."""
        self.current.cancel()


class LocalResponse(DeploymentResponse[object]):
    """The answer of a call in local testing mode."""

    async def _answer(self) -> object:
        try:
            return await asyncio.wrap_future(self._call.current)  # type: ignore[arg-type]
        except (concurrent.futures.CancelledError, asyncio.CancelledError):
            if self._cancelled:
                raise RequestCancelledError(self.request_id) from None
            raise

    def result(self, *, timeout_s: float | None = None, _skip_asyncio_check: bool = False) -> object:
        """Wait for the answer; raises as the real one does."""
        from sundog.serve.handle import _in_loop

        if not _skip_asyncio_check and _in_loop():
            raise RuntimeError(
                "result() blocks, and this thread runs an asyncio event loop. Write `await response` here."
            )
        try:
            return self._call.current.result(timeout_s)  # type: ignore[union-attr]
        except concurrent.futures.CancelledError:
            raise RequestCancelledError(self.request_id) from None

    async def _to_object_ref(self) -> NoReturn:
        raise RuntimeError(
            "Local testing mode makes no ObjectRef of a DeploymentResponse. Await the response itself."
        )

    def _to_object_ref_sync(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise RuntimeError(
            "Local testing mode makes no ObjectRef of a DeploymentResponse. Await the response itself."
        )


class LocalResponseGenerator(DeploymentResponseGenerator[object]):
    """The items of a streaming call in local testing mode."""

    def __init__(self, call: _LocalCall, items: queue.Queue[tuple[str, object]]) -> None:
        super().__init__(call)  # type: ignore[arg-type]
        self._items = items

    def _value(self, item: tuple[str, object]) -> object:
        kind, value = item
        if kind == "item":
            return value
        self._items.put(item)  # every later question gets the same answer
        if kind == "end":
            raise StopIteration
        if isinstance(value, asyncio.CancelledError):
            raise RequestCancelledError(self.request_id) from None
        assert isinstance(value, BaseException)
        raise value

    def __next__(self) -> object:
        from sundog.serve.handle import _in_loop

        if _in_loop():
            raise RuntimeError(
                "next() on a response blocks, and this thread runs an asyncio event loop. Write `async for`, or await "
                "`response.__anext__()`."
            )
        return self._value(self._items.get())

    async def __anext__(self) -> object:
        while True:
            try:
                return self._value(self._items.get_nowait())
            except queue.Empty:
                await asyncio.sleep(0.001)
            except StopIteration:
                raise StopAsyncIteration from None


class LocalHandle(DeploymentHandle[object]):
    """A handle in local testing mode."""

    def __init__(
        self,
        user: UserCode,
        where: DeploymentID,
        replica: ReplicaContext,
        options: HandleOptions | None = None,
    ) -> None:
        super().__init__(where.name, where.app_name, handle_options=options, init_options=InitOptions())
        self._user, self._replica = user, replica

    def options(self, **given: Any) -> LocalHandle:
        """The same handle with other options."""
        from dataclasses import replace

        given.pop("_prefer_local_routing", None)
        return LocalHandle(
            self._user, self.deployment_id, self._replica, replace(self.handle_options, **given)
        )

    def remote(self, *args: object, **kwargs: object) -> LocalResponse | LocalResponseGenerator:
        """Call the deployment."""
        options = self.handle_options
        request = context.request_context.get()
        seen = RequestContext(
            request.route,
            request.request_id or new_request_id(),
            "",
            self.app_name,
            options.multiplexed_model_id,
            options.session_id,
        )
        loop = _user_loop()
        if options.stream:
            items: queue.Queue[tuple[str, object]] = queue.Queue()
            streams = asyncio.run_coroutine_threadsafe(self._stream(seen, args, kwargs, items), loop)
            return LocalResponseGenerator(_LocalCall(streams), items)
        future = asyncio.run_coroutine_threadsafe(self._call(seen, args, kwargs), loop)
        return LocalResponse(_LocalCall(future))  # type: ignore[arg-type]

    async def _ready(
        self, seen: RequestContext, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[list[object], dict[str, object]]:
        context.request_context.set(seen)
        values = [await _resolved(each) for each in args]
        named = {name: await _resolved(each) for name, each in kwargs.items()}
        context.enter_local_replica(self._replica)
        return values, named

    async def _call(
        self, seen: RequestContext, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        values, named = await self._ready(seen, args, kwargs)
        return await self._user.call(self.handle_options.method_name, tuple(values), named)

    async def _stream(
        self,
        seen: RequestContext,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        items: queue.Queue[tuple[str, object]],
    ) -> None:
        try:
            values, named = await self._ready(seen, args, kwargs)
            async for each in self._user.stream(self.handle_options.method_name, tuple(values), named):
                items.put(("item", each))
            items.put(("end", None))
        except BaseException as error:
            items.put(("error", error))
            if not isinstance(error, Exception):
                raise

    def _live_router(self) -> NoReturn:
        raise RayServeException(
            "Local testing mode has no routers: choose_replica and broadcast need replicas."
        )

    def __reduce__(self) -> NoReturn:
        raise RayServeException("A handle of local testing mode cannot leave its process.")


async def _resolved(value: object) -> object:
    if isinstance(value, DeploymentResponseGenerator):
        raise RuntimeError(
            "An argument of this call is a DeploymentResponseGenerator. A handle takes no streamed answer as an "
            "argument: read its items first and pass those."
        )
    return await value if isinstance(value, DeploymentResponse) else value
