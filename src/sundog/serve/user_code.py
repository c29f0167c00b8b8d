"""The user's class or function in a replica: made, called, asked for its health, ended.

Owns the object, how its methods are called, and the threads for plain methods: coroutines are awaited in the event
loop, plain methods run in threads, so that one that blocks holds up no other request. With
RAY_SERVE_RUN_SYNC_IN_THREADPOOL=0 they run in the event loop. Runs in a replica, and in local testing mode in the
caller's process.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from sundog.serve.answers import WholeAnswer, answer_to_error
from sundog.serve.exceptions import RayServeException
from sundog.serve.imports import setting
from sundog.serve.ingress import AsgiIngress, start_app
from sundog.serve.multiplex import unload_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope

    Handler = tuple[Callable[..., object], type[Request] | None, bool]

_END = object()


class UserCode:
    """What a deployment runs."""

    def __init__(self, definition: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.definition, self.args, self.kwargs = definition, args, kwargs
        self.is_function = not inspect.isclass(definition)
        self.object: Any = None
        self._in_threads = setting("RAY_SERVE_RUN_SYNC_IN_THREADPOOL", 1) != 0
        self._threads: ThreadPoolExecutor | None = None
        self._threads_max = 5
        self._handlers: dict[str, Handler] = {}
        self._methods: dict[str, Callable[..., object]] = {}
        self._asyncs: set[str] = set()  # the names of methods that are coroutines or generators

    @property
    def is_asgi(self) -> bool:
        """Whether HTTP requests go to an ASGI app."""
        return isinstance(self.object, AsgiIngress)

    def limit_threads(self, count: int) -> None:
        """How many plain methods may run at a time."""
        if count != self._threads_max:
            self._threads_max = count
            old, self._threads = self._threads, None
            if old is not None:
                old.shutdown(wait=False)

    def close(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, method: Callable[..., object], *args: object, **kwargs: object) -> object:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._threads_max + 2, thread_name_prefix="serve-user-code")
        here = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: here.run(method, *args, **kwargs))

    def make(self) -> object:
        """The object, before its constructor has run: the constructor may ask the replica for this object."""
        self.object = self.definition if self.is_function else self.definition.__new__(self.definition)
        return self.object

    async def construct(self) -> None:
        """Run the constructor, and start the ASGI app if there is one."""
        if not self.is_function:
            made = self.object.__init__(*self.args, **self.kwargs)
            if inspect.isawaitable(made):
                await made
        if self.is_asgi:
            await start_app(self.object, _unavailable)

    # ------------------------------------------------------------------ calls
    def method(self, name: str) -> Callable[..., object]:
        """A method of the object.

        Raises:
            RayServeException: there is none of that name.
        """
        found = self._methods.get(name)
        if found is None:
            found = self._look_up(name)
            if _is_async(found):
                self._asyncs.add(name)
            self._methods[name] = found
        return found

    def _look_up(self, name: str) -> Callable[..., object]:
        if self.is_function:
            if name == "__call__":
                function: Callable[..., object] = self.object
                return function
        elif name != "__call__" or not self.is_asgi:
            found: Callable[..., object] | None = getattr(self.object, name, None)
            if callable(found):
                return found
        names = []
        if not self.is_function:
            names = [
                each
                for each in dir(type(self.object))
                if (not each.startswith("_") or each == "__call__")
                and callable(getattr(type(self.object), each, None))
            ]
        elif name != "__call__":
            names = ["__call__"]
        raise RayServeException(
            f"Tried to call a method '{name}' that does not exist. Available methods: {names}"
        )

    async def call(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Call a method and wait for what it returns."""
        method = self.method(name)
        if self._in_threads and name not in self._asyncs:
            result = await self._in_thread(method, *args, **kwargs)
        else:
            result = method(*args, **kwargs)
        if type(result) is CoroutineType:
            result = await result
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise TypeError(
                f"The method {name!r} gave a generator, but the call asked for one value. Call it through "
                "`handle.options(stream=True)`."
            )
        return result

    async def stream(
        self, name: str, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> AsyncIterator[object]:
        """Call a method that is a generator; its items as they come."""
        result = self.method(name)(*args, **kwargs)
        if inspect.iscoroutine(result):
            result = await result
        if inspect.isasyncgen(result):
            try:
                async for each in result:
                    yield each
            finally:
                await result.aclose()
        elif inspect.isgenerator(result):
            try:
                while (each := await self._next_of(result)) is not _END:
                    yield each
            finally:
                if not result.gi_running:
                    result.close()
        else:
            raise TypeError(
                f"The call asked for a stream (stream=True), but the method {name!r} gave {type(result)}, no generator."
            )

    async def _next_of(self, items: Iterator[object]) -> object:
        if self._in_threads:
            return await self._in_thread(next, items, _END)
        await asyncio.sleep(0)
        return next(items, _END)

    # ------------------------------------------------------------------ HTTP without an app
    async def call_http(self, scope: Scope, receive: Receive, name: str = "__call__") -> object:
        """Call the handler of a deployment that is no ASGI app; what it returns."""
        found = self._handlers.get(name)
        if found is None:
            found = self._handlers[name] = self._handler(name)
        method, request_type, is_threaded = found
        args = () if request_type is None else (request_type(scope, receive),)
        result = await self._in_thread(method, *args) if is_threaded else method(*args)
        return await result if type(result) is CoroutineType else result

    def _handler(self, name: str) -> Handler:
        """A method, the class of the request that it takes (None: it takes none), and whether it runs in a thread."""
        from starlette.requests import Request

        method = self.method(name)
        parameters = inspect.signature(method).parameters.values()
        takes = any(each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in parameters)
        return method, Request if takes else None, self._in_threads and not _is_async(method)

    # ------------------------------------------------------------------ other methods that users may define
    def hears_of_changes(self, user_config: object) -> bool:
        """Whether `reconfigure` runs code of the user's: else nothing that a request sees changes with it."""
        method = None if self.is_function else getattr(self.object, "reconfigure", None)
        if method is None:
            return False
        return user_config is not None or "rank" in inspect.signature(method).parameters

    async def reconfigure(self, user_config: object, rank: object) -> None:
        """Hand the user's config over, and the rank if the method takes it."""
        if self.is_function:
            if user_config is not None:
                raise ValueError("deployment_def must be a class to use user_config.")
            return
        method = getattr(self.object, "reconfigure", None)
        if method is None:
            if user_config is not None:
                raise RayServeException(
                    f"user_config specified but deployment {type(self.object).__name__} missing reconfigure method."
                )
            return
        takes_rank = "rank" in inspect.signature(method).parameters
        if user_config is None and not takes_rank:
            return
        named = {"rank": rank} if takes_rank else {}
        if self._in_threads and not _is_async(method):
            await self._in_thread(method, user_config, **named)
            return
        made = method(user_config, **named)
        if inspect.isawaitable(made):
            await made

    async def ask(self, name: str) -> Any:
        """Call a method that the user may have defined; None if not."""
        method = None if self.is_function else getattr(self.object, name, None)
        if method is None:
            return None
        if self._in_threads and not _is_async(method):
            return await self._in_thread(method)
        made = method()
        return await made if inspect.isawaitable(made) else made

    async def end(self) -> None:
        """Let the models of the object go, and run its `__del__`, once."""
        await unload_all(self.object)
        method = None if self.is_function else getattr(self.object, "__del__", None)
        if method is not None:
            made = method()
            if inspect.isawaitable(made):
                await made
            type(self.object).__del__ = lambda _self: None


def _is_async(method: object) -> bool:
    plain = method if inspect.isroutine(method) else type(method).__call__
    return (
        inspect.iscoroutinefunction(plain)
        or inspect.isasyncgenfunction(plain)
        or inspect.isgeneratorfunction(plain)
    )


def _unavailable(_request: object, error: Exception) -> object:
    from starlette.responses import Response

    answer: WholeAnswer = answer_to_error(error, "")
    return Response(
        answer.body, answer.status, {key.decode(): value.decode() for key, value in answer.headers}
    )
