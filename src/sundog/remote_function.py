"""`@remote` on functions: what `.remote()` and `.options()` act on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from sys import _getframe
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from sundog import engines
from sundog.ids import RESULT_SUFFIX
from sundog.options import TaskOptions, parse_task_options
from sundog.owner import call_sites, context
from sundog.owner.rows import Fn
from sundog.printable import printable
from sundog.refs import ObjectRef
from sundog.signatures import Signature, check_yields, is_coroutine, is_generator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal, Unpack

    from sundog.call_types import Takes1, Takes2, Takes3, Takes4
    from sundog.dag import FunctionNode
    from sundog.engines.foreign import ForeignEngine, Native
    from sundog.engines.local import LocalEngine
    from sundog.generator import DynamicObjectRefGenerator, ObjectRefGenerator
    from sundog.option_types import RemoteKeywords, TaskKeywords

__tracebackhide__ = True  # pytest folds the frames of this file

P = ParamSpec("P")
Q = ParamSpec("Q")
Out = TypeVar("Out", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
# What `.remote` of a decorated function takes: the arguments as a tuple and a dict.
Invoke = Callable[[tuple[object, ...], dict[str, object]], object]


class RemoteFunction(Generic[P, Out]):
    """A function that runs in another process when called with `.remote()`.

    To type checkers, `RemoteFunction[[int, str], ObjectRef[float]]` takes an int and a str, or refs to them.
    """

    def __init__(self, function: Callable[P, object], options: TaskOptions) -> None:
        self._function = function
        self._options = options
        self._name = printable(getattr(function, "__name__", "") or type(function).__name__)
        self._generator = is_generator(function)
        check_yields(self._name, options.num_returns, self._generator)
        self._engine: LocalEngine | None = None
        self._generation = -1
        self._fn: Fn  # once it is bound
        # As another engine has it. The first is shared by all .options() of this function.
        self._native: dict[object, Native[object]] = {}
        self._elsewhere: tuple[ForeignEngine | None, Native[object] | None] = (None, None)
        self._signature = Signature.of(function)
        functools.update_wrapper(self, function)
        decorator = getattr(function, "__ray_invocation_decorator__", None)
        if decorator is not None:
            self.remote = _decorated(decorator, self.remote)  # type: ignore[method-assign]

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            f"Remote function {self._name}() cannot be called directly. Use {self._name}.remote(...) to run it as a "
            f"task, or {self._name}._function(...) to run it here."
        )

    @overload
    def remote(self, *args: P.args, **kwargs: P.kwargs) -> Out: ...
    @overload
    def remote(self: Takes1[A, Q, Out], a: A | ObjectRef[A], /, *args: Q.args, **kwargs: Q.kwargs) -> Out: ...
    @overload
    def remote(
        self: Takes2[A, B, Q, Out],
        a: A | ObjectRef[A],
        b: B | ObjectRef[B],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def remote(
        self: Takes3[A, B, C, Q, Out],
        a: A | ObjectRef[A],
        b: B | ObjectRef[B],
        c: C | ObjectRef[C],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Out: ...
    @overload
    def remote(
        self: Takes4[A, B, C, D, Q, Out],
        a: A | ObjectRef[A],
        b: B | ObjectRef[B],
        c: C | ObjectRef[C],
        d: D | ObjectRef[D],
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Out: ...
    def remote(self, *args: object, **kwargs: object) -> object:  # type: ignore[misc]
        """Run as a task; returns a ref (or several, or a generator, by `num_returns`)."""
        engine = engines.current()
        if engine is not self._engine or engine is None or self._generation != context.generation:
            if engine is None and (other := engines.elsewhere(start=True)) is not None:
                return other.submit(self, args, kwargs)
            engine = self._bind()
        signature = self._signature
        if kwargs or not signature.low <= len(args) <= signature.high:
            signature.check(self._name, args, kwargs)
        tasks = engine.owner.tasks
        fn = self._fn
        task = tasks.submit(fn, args, kwargs)
        caller = _getframe(1)
        code, at = caller.f_code, caller.f_lasti
        if at != fn.site_at or code is not fn.site_code:
            call_sites.note(engine.owner.ring, fn, task.id, code, at)
        if fn.one:
            return ObjectRef(task.id + RESULT_SUFFIX, code, at)
        return tasks.refs_of(task, code, at)

    def _takes(self, *args: P.args, **kwargs: P.kwargs) -> Out:
        """What a call takes and gives, for type checkers (see `call_types`)."""
        raise NotImplementedError

    def _remote(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[TaskKeywords],
    ) -> Any:
        """Run as a task, with arguments in a list and a dict, and options for this call alone."""
        chosen: RemoteFunction[..., object] = self.options(**options) if options else self
        return chosen.remote(*(args or ()), **(kwargs or {}))

    def _bind(self) -> LocalEngine:
        from sundog.api import engine_or_init

        engine = engine_or_init()
        self._fn = engine.bind(self._function, self._name, self._options, generator=self._generator)
        self._engine = engine
        self._generation = context.generation
        return engine

    @overload
    def options(self, **overrides: Unpack[TaskKeywords]) -> RemoteFunction[P, Out]: ...
    @overload
    def options(
        self, *, num_returns: Literal["streaming"], **overrides: Unpack[TaskKeywords]
    ) -> RemoteFunction[P, ObjectRefGenerator[Any]]: ...
    @overload
    def options(
        self, *, num_returns: Literal["dynamic"], **overrides: Unpack[TaskKeywords]
    ) -> RemoteFunction[P, ObjectRef[DynamicObjectRefGenerator]]: ...
    @overload
    def options(  # type: ignore[overload-overlap]
        self, *, num_returns: Literal[1], **overrides: Unpack[TaskKeywords]
    ) -> RemoteFunction[P, ObjectRef[Any]]: ...
    @overload
    def options(
        self, *, num_returns: int, **overrides: Unpack[TaskKeywords]
    ) -> RemoteFunction[P, list[ObjectRef[Any]]]: ...
    def options(self, **overrides: object) -> RemoteFunction[P, Any]:
        """The same function with other options."""
        made: RemoteFunction[P, object] = RemoteFunction(self._function, self._options.merged(**overrides))
        made._native = self._native
        return made

    def bind(self, *args: object, **kwargs: object) -> FunctionNode:
        """A node of a graph (`sundog.dag`) that runs this function as a task when the graph is executed."""
        from sundog.dag import FunctionNode

        return FunctionNode(self, args, kwargs)

    def __reduce__(self) -> tuple[object, ...]:
        if engines.foreign is not None:
            engines.foreign.bind(self)
        if self._native:
            return (_rebuild, (self._function, self._options, self._native))
        return (_rebuild, (self._function, self._options))

    def __repr__(self) -> str:
        return f"RemoteFunction({self._name})"


def _decorated(decorator: Callable[[Invoke], Invoke], call: Callable[..., object]) -> Callable[..., Any]:
    """`.remote` of a function that has a decorator of its own for how it is called: on this side, not in the task."""
    invoke = decorator(lambda args, kwargs: call(*args, **kwargs))

    def remote(*args: object, **kwargs: object) -> object:
        return invoke(args, kwargs)

    return remote


def _rebuild(
    function: Callable[P, object], options: TaskOptions, native: dict[object, Native[object]] | None = None
) -> RemoteFunction[P, Any]:
    made: RemoteFunction[P, object] = RemoteFunction(function, options)
    made._native = native or {}
    return made


def make_remote_function(function: Callable[P, object], given: RemoteKeywords) -> RemoteFunction[P, Any]:
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
