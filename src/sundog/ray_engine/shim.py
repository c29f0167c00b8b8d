"""What Ray runs instead of the user's function or method: the same, with its start and end noted.

A shim is a function of the same kind (plain, generator, coroutine, asynchronous generator), for Ray asks for the kind;
it has no `__wrapped__`, for Ray would follow that to the user's function. The function comes to Ray's workers by pickle
and names this module, so the first shim that runs in a worker brings the worker to this engine. Owns the shims, the
entry of a worker into this engine, and the bound on time. Runs in Ray's workers, in the threads and event loops of Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextvars import Token
from typing import TYPE_CHECKING, Any

from sundog import events
from sundog.exceptions import TaskTimeoutError
from sundog.options import MethodOptions
from sundog.ray_engine import process, runs, wishes
from sundog.ray_engine import (
    shim as here,
)  # shims use this name: a pickled shim refers to this module instead of copying it
from sundog.ray_engine.runs import Own, Users, now_running, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Generator
    from types import FrameType

Invocation = Callable[[tuple[object, ...], dict[str, object]], object]  # how Ray calls

_PLAIN = MethodOptions()
_time = time.time
_get_ident = threading.get_ident


class Execution:
    """One attempt at a task or call, in the process that makes it."""

    __slots__ = (
        "attempt",
        "call",
        "coroutine",
        "kind",
        "name",
        "number",
        "own",
        "start_s",
        "task",
        "thread",
        "timer",
        "token",
    )

    def __init__(
        self, kind: int, name: str, own: Own, call: tuple[Users, tuple[object, ...], dict[str, object]]
    ) -> None:
        me = process.me or _enter()
        self.kind, self.name, self.own, self.call = kind, name, own, call
        self.task, self.attempt = me.current_task()
        self.coroutine: Awaitable[object] | None = None
        self.timer: Callable[[int, FrameType | None], object] | int | None = None
        self.thread = _get_ident()
        now_running[id(self)] = self
        self.token: Token[bytes] = running.set(self.task)
        self.start_s = _time()
        ring = me.ring
        self.number = 0 if ring is None else ring.name(name)  # of the name, in the ring
        if ring is not None:
            ring.started(self.task, self.start_s, self.number)
        if own:
            self._bound()

    # ------------------------------------------------------------------ timeout_s
    def _bound(self) -> None:
        seconds = _timeout_of(self.own)
        if seconds is None or not self._is_plain():
            return
        if threading.current_thread() is threading.main_thread():
            self.timer = signal.signal(signal.SIGALRM, self._late)
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def _is_plain(self) -> bool:
        return not inspect.iscoroutinefunction(self.call[0]) and not inspect.isasyncgenfunction(self.call[0])

    def _late(self, *_: object) -> None:
        raise self.late()

    def late(self) -> TaskTimeoutError:
        """The error of a call that ran too long."""
        seconds = _timeout_of(self.own)
        assert seconds is not None, "only a call with a bound is late"
        return TaskTimeoutError(
            f"{self.name} ran longer than its timeout_s={seconds:g}, in attempt {self.attempt + 1}.",
            function_name=self.name,
            timeout_s=seconds,
            attempt=self.attempt + 1,
        )

    async def bounded(self, coroutine: Awaitable[object]) -> object:
        """Await a coroutine, for as long as its `timeout_s` allows."""
        seconds = _timeout_of(self.own)
        if seconds is None:
            return await coroutine
        try:
            async with asyncio.timeout(seconds) as bound:
                return await coroutine
        except TimeoutError:
            if not bound.expired():
                raise
            raise self.late() from None

    # ------------------------------------------------------------------ its end
    def end(self, error: BaseException | None) -> None:
        """Note how it ended."""
        if error is not None and dict(self.own).get("post_mortem") and error.__traceback__ is not None:
            from sundog.ray_engine import pauses

            pauses.post_mortem(error.__traceback__, error)
        if self.timer is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.timer)
        now_running.pop(id(self), None)
        try:
            running.reset(self.token)
        except ValueError:
            pass  # a generator may be closed in another context than its own
        me = process.me
        if me is not None:
            me.ended(self, error)


def _enter() -> process.ClusterProcess:
    """Bring this worker to the engine: the first shim that runs in it does so."""
    from sundog.ray_engine import joining

    me = process.ready()
    if me.ring is not None:
        sys.breakpointhook = _stop
    joining.enter_worker()
    return me


def _stop(*args: object, **kwargs: object) -> None:
    """`breakpoint()` in a worker."""
    from sundog.ray_engine import pauses

    pauses.hook(sys._getframe(1))


def _timeout_of(own: Own) -> float | None:
    found = dict(own).get("timeout_s")
    return found if isinstance(found, (int, float)) else None


def _needs_none() -> bool:
    """Whether this is a plain call within a call, such as of another method of the same actor: no task of its own."""
    return bool(running.get())


def task(function: Users, own: Own) -> Callable[..., Any]:
    """The shim of a function."""
    name = getattr(function, "__name__", "") or type(function).__name__
    return _dressed(_around(function, events.TASK, name, own), function, name)


def actor_class(cls: type, own: Own) -> type:
    """A subclass whose methods are shims."""
    body: dict[str, object] = {}
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        found = inspect.getattr_static(cls, name)
        if isinstance(found, (staticmethod, classmethod)) or (
            name.startswith("__") and name not in ("__init__", "__call__")
        ):
            continue
        kind, shown = (events.CREATE if name == "__init__" else events.CALL), f"{cls.__name__}.{name}"
        asked = getattr(member, "__sundog_options__", _PLAIN)
        made = _dressed(_around(member, kind, shown, own + wishes.shims(asked)), member, shown)
        theirs = wishes.method_options(asked)
        body[name] = _rays_method(made, theirs) if theirs else made
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        body["__init__"] = _dressed(
            _around(_no_constructor, events.CREATE, f"{cls.__name__}.__init__", own),
            _no_constructor,
            "__init__",
        )
    body.update(__module__=cls.__module__, __qualname__=cls.__qualname__, __doc__=cls.__doc__)
    return type(cls)(cls.__name__, (cls,), body)


def _no_constructor(self: object) -> None:
    """The constructor of a class that has none."""


def _rays_method(made: Users, options: dict[str, object]) -> object:
    import ray

    return ray.method(**options)(made)


def _around(function: Users, kind: int, name: str, own: Own) -> Users:
    """A function of the same kind as the user's, which calls it."""
    asked = dict(own).get("profile")
    if isinstance(asked, str) and kind != events.CREATE:
        function = _measured(function, name, asked)
    if inspect.isasyncgenfunction(function):
        return _around_stream(function, kind, name, own)
    if inspect.iscoroutinefunction(function):
        return _around_coroutine(function, kind, name, own)
    if inspect.isgeneratorfunction(function):
        return _around_generator(function, kind, name, own)
    return _around_plain(function, kind, name, own)


def _measured(function: Users, name: str, asked: str) -> Callable[..., Any]:
    """The user's function under a profiler, of the same kind."""
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return function  # as on the local engine: iterating over its items is not one call

    def measured(*args: object, **kwargs: object) -> object:
        from sundog.ray_engine import profiles

        profiler = profiles.profiler_of(asked, function)
        return function(*args, **kwargs) if profiler is None else profiler.call(function, name, args, kwargs)

    async def awaited(*args: object, **kwargs: object) -> object:
        found = measured(*args, **kwargs)
        assert inspect.isawaitable(found)
        return await found

    return functools.update_wrapper(awaited if inspect.iscoroutinefunction(function) else measured, function)


def _around_plain(function: Users, kind: int, name: str, own: Own) -> Users:
    def shim(*args: object, **kwargs: object) -> object:
        if runs.running.get():  # a call within a call, such as of another method of the same actor
            return function(*args, **kwargs)
        execution = here.Execution(kind, name, own, (function, args, kwargs))
        try:
            found = function(*args, **kwargs)
        except BaseException as error:
            execution.end(error)
            raise
        execution.end(None)
        return found

    return shim


def _around_generator(
    function: Callable[..., Generator[object, None, object]], kind: int, name: str, own: Own
) -> Users:
    def shim(*args: object, **kwargs: object) -> Generator[object, None, object]:
        if here._needs_none():
            return (yield from function(*args, **kwargs))
        execution, error = here.Execution(kind, name, own, (function, args, kwargs)), None
        try:
            # Not `yield from`: Ray sends values into what it iterates, and the user's may be no generator.
            for item in function(*args, **kwargs):  # noqa: UP028
                yield item
        except BaseException as caught:
            error = caught
            raise
        finally:
            execution.end(error)
        return None

    return shim


def _around_coroutine(function: Callable[..., Awaitable[object]], kind: int, name: str, own: Own) -> Users:
    async def shim(*args: object, **kwargs: object) -> object:
        if runs.running.get():  # a call within a call
            return await function(*args, **kwargs)
        execution = here.Execution(kind, name, own, (function, args, kwargs))
        try:
            coroutine = execution.coroutine = function(*args, **kwargs)  # `stack` asks where it is
            found = await (execution.bounded(coroutine) if own else coroutine)
        except BaseException as error:
            execution.end(error)
            raise
        execution.end(None)
        return found

    return shim


def _around_stream(function: Callable[..., AsyncIterator[object]], kind: int, name: str, own: Own) -> Users:
    async def shim(*args: object, **kwargs: object) -> AsyncIterator[object]:
        if here._needs_none():
            async for item in function(*args, **kwargs):
                yield item
            return
        execution, error = here.Execution(kind, name, own, (function, args, kwargs)), None
        try:
            async for item in function(*args, **kwargs):
                yield item
        except BaseException as caught:
            error = caught
            raise
        finally:
            execution.end(error)

    return shim


def _dressed(shim: Users, function: Users, name: str) -> Users:
    """A shim that looks like the user's to Ray, which goes by name and signature."""
    functools.update_wrapper(shim, function)
    attributes = vars(shim)
    for each in ("__wrapped__", "__sundog_options__", "__sundog_method__"):
        attributes.pop(each, None)
    with contextlib.suppress(TypeError, ValueError):
        attributes["__signature__"] = inspect.signature(function)
    before = getattr(function, "__ray_invocation_decorator__", None)
    attributes["__ray_invocation_decorator__"] = here.Submissions(name, before)
    return shim


class Submissions:
    """Notes each call in the caller's process: takes the function by which Ray calls, and returns one for Ray."""

    def __init__(self, name: str, users: Callable[[Invocation], Invocation] | None = None) -> None:
        self.name = name
        self.users = users

    def __call__(self, invocation: Invocation) -> Invocation:
        """Ray's way to call, with a note of it."""
        inner = invocation if self.users is None else self.users(invocation)
        me = process.me
        if me is None or me.ring is None:
            return inner
        name = self.name

        def invoke(args: tuple[object, ...], kwargs: dict[str, object]) -> object:
            submit_s = _time()
            refs = inner(args, kwargs)
            me.submitted(refs, name, submit_s, args)
            return refs

        return invoke
