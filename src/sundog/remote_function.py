"""`@remote` on functions: what `.remote()` and `.options()` act on."""

from __future__ import annotations

import functools
from sys import _getframe
from typing import Any

from sundog import engines
from sundog.ids import RESULT_SUFFIX
from sundog.options import TaskOptions, parse_task_options
from sundog.owner import call_sites, context
from sundog.owner.records import Fn
from sundog.printable import printable
from sundog.refs import ObjectRef
from sundog.signatures import Signature, check_yields, is_coroutine, is_generator

__tracebackhide__ = True  # pytest folds the frames of this file


class RemoteFunction:
    """A function that runs in another process when called with `.remote()`."""

    def __init__(self, function: Any, options: TaskOptions) -> None:
        self._function = function
        self._options = options
        self._name = printable(getattr(function, "__name__", "") or type(function).__name__)
        self._generator = is_generator(function)
        check_yields(self._name, options.num_returns, self._generator)
        self._engine: Any = None
        self._generation = -1
        self._fn: Fn | None = None
        self._signature = Signature.of(function)
        functools.update_wrapper(self, function)
        decorator = getattr(function, "__ray_invocation_decorator__", None)
        if decorator is not None:
            self.remote = _decorated(decorator, self.remote)  # type: ignore[method-assign]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Remote function {self._name}() cannot be called directly. Use {self._name}.remote(...) to run it as a "
            f"task, or {self._name}._function(...) to run it here."
        )

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a task; returns a ref (or several, or a generator, by `num_returns`)."""
        engine = engines.current()
        if engine is not self._engine or engine is None or self._generation != context.generation:
            engine = self._bind()
        signature = self._signature
        if kwargs or not signature.low <= len(args) <= signature.high:
            signature.check(self._name, args, kwargs)
        tasks = engine.owner.tasks
        fn: Any = self._fn
        task = tasks.submit(fn, args, kwargs)
        caller = _getframe(1)
        code, at = caller.f_code, caller.f_lasti
        if at != fn.site_at or code is not fn.site_code:
            call_sites.note(engine.owner.ring, fn, task.id, code, at)
        if fn.one:
            return ObjectRef(task.id + RESULT_SUFFIX, code, at)
        return tasks.refs_of(task, code, at)

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run as a task, with arguments in a list and a dict, and options for this call alone."""
        chosen = self.options(**options) if options else self
        return chosen.remote(*(args or ()), **(kwargs or {}))

    def _bind(self) -> Any:
        from sundog.api import engine_or_init

        engine = engine_or_init()
        self._fn = engine.bind(self._function, self._name, self._options, generator=self._generator)
        self._engine = engine
        self._generation = context.generation
        return engine

    def options(self, **overrides: Any) -> RemoteFunction:
        """The same function with other options."""
        return RemoteFunction(self._function, self._options.merged(**overrides))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Out of scope: graphs of bound calls are not part of sundog."""
        raise NotImplementedError("bind() is not part of sundog: call .remote() and pass refs instead.")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._function, self._options))

    def __repr__(self) -> str:
        return f"RemoteFunction({self._name})"


def _decorated(decorator: Any, call: Any) -> Any:
    """`.remote` of a function that has a decorator of its own for how it is called: on this side, not in the task."""
    invoke = decorator(lambda args, kwargs: call(*args, **kwargs))

    def remote(*args: Any, **kwargs: Any) -> Any:
        return invoke(args, kwargs)

    return remote


def _rebuild(function: Any, options: TaskOptions) -> RemoteFunction:
    return RemoteFunction(function, options)


def make_remote_function(function: Any, given: dict[str, Any]) -> RemoteFunction:
    """`@remote` or `@remote(**given)` on a function.

    Raises:
        ValueError: the function is a coroutine function, or an option is wrong.
    """
    if is_coroutine(function):
        name = getattr(function, "__qualname__", repr(function))
        raise ValueError(
            f"{name}() is an 'async def', and a task has no event loop. Write a plain function that calls "
            f"asyncio.run({name}(...)), or make it a method of an actor, which has one."
        )
    return RemoteFunction(function, parse_task_options(given))
