"""Methods of actors: what `handle.name` is, and `@method` for options of its own.

Owns the class, its binding to the actor's lane, and what methods and their handle share. Runs in the process that
calls.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from sundog import engines
from sundog.handle_data import HandleData
from sundog.ids import RESULT_SUFFIX
from sundog.option_checks import ExceptionTypes, MisuseError
from sundog.options import MethodOptions, parse_method_options
from sundog.owner import call_sites, timeouts
from sundog.owner.rows import DONE, Fn
from sundog.printable import printable
from sundog.refs import ObjectRef
from sundog.serialize.pack import pack_function
from sundog.signatures import Signature, check_yields
from sundog.wire import lanes as wire
from sundog.wire.inspect import inspect_of

if TYPE_CHECKING:
    import inspect
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
    from typing import Concatenate, Literal, Unpack

    from sundog.call_types import (
        MethodDecorator,
        MethodListDecorator,
        Takes1,
        Takes2,
        Takes3,
        Takes4,
        TypedMethod,
        Untyped,
    )
    from sundog.dag import ClassMethodNode
    from sundog.engines.local import LocalEngine
    from sundog.generator import ObjectRefGenerator
    from sundog.option_types import MethodKeywords
    from sundog.owner.lanes import ActorLane

__tracebackhide__ = True  # pytest folds the frames of this file

P = ParamSpec("P")
Q = ParamSpec("Q")
Out = TypeVar("Out", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
S = TypeVar("S")
T = TypeVar("T")

_ANYTHING = Signature(None)


@overload
def method(function: Callable[Concatenate[S, P], Untyped], /) -> TypedMethod[S, ..., Any, Any]: ...
@overload
def method(
    function: Callable[Concatenate[S, P], Coroutine[object, object, T]], /
) -> TypedMethod[S, P, Coroutine[object, object, T], ObjectRef[T]]: ...
@overload
def method(  # type: ignore[overload-overlap]
    function: Callable[Concatenate[S, P], Iterator[T]], /
) -> TypedMethod[S, P, Iterator[T], ObjectRefGenerator[T]]: ...
@overload
def method(  # type: ignore[overload-overlap]
    function: Callable[Concatenate[S, P], AsyncIterator[T]], /
) -> TypedMethod[S, P, AsyncIterator[T], ObjectRefGenerator[T]]: ...
@overload
def method(function: Callable[Concatenate[S, P], T], /) -> TypedMethod[S, P, T, ObjectRef[T]]: ...
@overload
def method(*, num_returns: Literal[1] | None = None, **given: Unpack[MethodKeywords]) -> MethodDecorator: ...  # type: ignore[overload-overlap]
@overload
def method(*, num_returns: Literal["streaming"], **given: Unpack[MethodKeywords]) -> MethodDecorator: ...
@overload
def method(*, num_returns: int, **given: Unpack[MethodKeywords]) -> MethodListDecorator: ...
def method(*args: object, **given: object) -> object:
    """Options of an actor's method, as a decorator: num_returns, concurrency_group, retries."""
    if len(args) == 1 and not given and callable(args[0]):
        return args[0]  # @method without brackets: an ordinary method
    if args:
        raise MisuseError(
            "@method needs options: write @method(num_returns=2), for example; without options leave it out."
        )
    parsed = parse_method_options(given)

    def decorate(function: Any) -> object:
        function.__sundog_method__ = dict(given)
        function.__sundog_options__ = parsed
        return function

    return decorate


class Core:
    """What a handle and its methods share. Methods are kept by their handle, so they must not keep it:
    a cycle would let the actor live until the collector comes by."""

    __slots__ = ("actor_id", "class_name", "cls", "data", "scope")

    def __init__(self, actor_id: bytes, data: HandleData, scope: ObjectRef[object] | None) -> None:
        self.actor_id = actor_id
        self.data = data
        self.class_name: str = data.members.class_name
        self.cls: type | None = None  # the plain class, in the process that created the actor
        self.scope = scope  # counted like any ref; None for a handle that does not keep the actor alive

    def __del__(self) -> None:
        if self.scope is not None and engines is not None:
            # records the death of the ref first, then wakes the thread that reads the sockets
            self.scope = None
            engine = engines.current()
            if engine is not None and engine.owner.closed is None:
                engine.owner.reactor.wake()


class ActorMethod(Generic[P, Out]):
    # A method of an actor; `.remote()` calls it there. Its docstring is the one that the user wrote.

    __slots__ = ("_core", "_fn", "_link", "_name", "_options", "_signature")

    def __init__(self, core: Core, name: str, options: MethodOptions) -> None:
        self._core = core
        self._name = name
        self._options = options
        self._link: ActorLane | None = None
        self._fn: Fn  # once it is bound
        self._signature: Signature = core.data.members.signatures.get(name) or _ANYTHING

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            f"A method of an actor runs in the process of the actor: write actor.{self._name}.remote(...), not "
            f"actor.{self._name}(...)."
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
        """Call the method; returns a ref (or several, or a generator)."""
        engine = engines.current()
        link = self._link
        if link is None or engine is None or link.owner is not engine.owner:
            engine, link = self._bind()
        signature = self._signature
        if kwargs or not signature.low <= len(args) <= signature.high:
            signature.check(f"{self._core.class_name}.{self._name}", args, kwargs)
        owner = engine.owner
        fn = self._fn
        task = owner.actors.call(link, fn, args, kwargs)
        link.keep = self._core.scope
        if not link.inflight and task.state == DONE and not link.queue:
            link.keep = None  # the call was answered before this line
        caller = _getframe(1)
        code, at = caller.f_code, caller.f_lasti
        if at != fn.site_at or code is not fn.site_code:
            call_sites.note(owner.ring, fn, task.id, code, at)
        if fn.one:
            return ObjectRef(task.id + RESULT_SUFFIX, code, at)
        return owner.tasks.refs_of(task, code, at)

    def _takes(self, *args: P.args, **kwargs: P.kwargs) -> Out:
        """What a call takes and gives, for type checkers (see `call_types`)."""
        raise NotImplementedError

    def _remote(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[MethodKeywords],
    ) -> Any:
        """Call the method with arguments in a list and a dict, and options for this call alone."""
        chosen: ActorMethod[..., object] = self.options(**options) if options else self
        return chosen.remote(*(args or ()), **(kwargs or {}))

    @property
    def __signature__(self) -> inspect.Signature:
        return self._signature.full()

    @property
    def __name__(self) -> str:
        return self._name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return getattr(getattr(self._core.cls, self._name, None), "__doc__", None)

    def __reduce__(self) -> tuple[object, ...]:
        core = self._core
        return (
            _rebuild_method,
            (core.actor_id, core.data, core.scope, self._name, self._options),
        )

    def _bind(self) -> tuple[LocalEngine, ActorLane]:
        from sundog.api import engine_of_session

        engine = engine_of_session()
        core, data, options = self._core, self._core.data, self._options
        link = engine.owner.actors.link(core.actor_id, core.class_name)
        link.max_pending = data.max_pending_calls
        link.out_of_order, link.by_group = data.out_of_order, bool(data.groups)
        link.concurrent = data.concurrent
        fn = Fn(self._name, f"{core.class_name}.{self._name}")
        returns: object = options.num_returns
        if returns is None:
            returns = "streaming" if self._name in data.members.generators else 1
        fn.returns = returns
        fn.one = returns == 1
        retries = options.max_task_retries
        fn.max_retries = data.max_task_retries if retries is None else retries
        extra: dict[str, object] = {}
        if returns != 1:
            extra[wire.EXTRA_RETURNS] = returns
        if options.concurrency_group:
            check_group(core.class_name, self._name, options.concurrency_group, data.groups)
            extra[wire.EXTRA_GROUP] = options.concurrency_group
        if options.name:
            extra[wire.EXTRA_NAME] = printable(options.name)
        if options.retry_exceptions:
            extra[wire.EXTRA_RETRY] = _retry_wire(options.retry_exceptions)
        limit = options._generator_backpressure_num_objects
        if limit is not None and limit > 0:
            fn.backpressure = limit
            extra[wire.EXTRA_BACKPRESSURE] = limit
        if data.unread_max and returns == "streaming":
            fn.counted = True
            fn.backpressure = min(data.unread_max, fn.backpressure) if limit else data.unread_max
        if options._num_objects_per_yield:
            extra[wire.EXTRA_PER_YIELD] = options._num_objects_per_yield
        if options.timeout_s or options.queue_timeout_s:
            extra = timeouts.bind(fn, options, extra)
        shown = options.enable_task_events
        if not (data.task_events if shown is None else shown):
            extra[wire.EXTRA_HIDDEN] = True
        if (inspect := inspect_of(options)) is not None:
            extra[wire.EXTRA_INSPECT] = inspect
        fn.extra = extra or None
        self._fn, self._link = fn, link
        return engine, link

    @overload
    def options(self, **overrides: Unpack[MethodKeywords]) -> ActorMethod[P, Out]: ...
    @overload
    def options(
        self, *, num_returns: Literal["streaming"], **overrides: Unpack[MethodKeywords]
    ) -> ActorMethod[P, ObjectRefGenerator[Any]]: ...
    @overload
    def options(self, *, num_returns: int, **overrides: Unpack[MethodKeywords]) -> ActorMethod[P, Any]: ...
    def options(self, **overrides: object) -> ActorMethod[..., Any]:
        """The same method with other options."""
        chosen, core = self._options.merged(**overrides), self._core
        yields = self._name in core.data.members.generators
        check_yields(f"{core.class_name}.{self._name}", chosen.num_returns, yields)
        return method_of(core, self._name, chosen)

    def bind(self, *args: object, **kwargs: object) -> ClassMethodNode:
        """A node of a graph (`sundog.dag`) that calls this method when the graph is executed."""
        from sundog.dag import ClassMethodNode

        return ClassMethodNode(self, self._name, args, kwargs, {})

    def __repr__(self) -> str:
        return f"ActorMethod({self._core.class_name}.{self._name})"


class _DecoratedMethod(ActorMethod[P, Out]):
    # A method whose function has a decorator for its calls: the decorator runs in the caller, not in the
    # actor.

    __slots__ = ("_invoke",)

    def __init__(self, core: Core, name: str, options: MethodOptions) -> None:
        import pickle

        super().__init__(core, name, options)
        call: Callable[..., object] = super().remote
        self._invoke: Callable[[tuple[object, ...], dict[str, object]], object]
        self._invoke = pickle.loads(core.data.members.decorators[name])(
            lambda args, kwargs: call(*args, **kwargs)
        )

    def remote(self, *args: object, **kwargs: object) -> Any:
        """Call the method, through its decorator."""
        return self._invoke(args, kwargs)


def method_of(core: Core, name: str, options: MethodOptions) -> ActorMethod[..., Any]:
    """A method of an actor; through its decorator if the function has one for its calls."""
    kind = _DecoratedMethod if name in core.data.members.decorators else ActorMethod
    return kind(core, name, options)


def _rebuild_method(
    actor_id: bytes, data: HandleData, scope: ObjectRef[object] | None, name: str, options: MethodOptions
) -> ActorMethod[..., Any]:
    return method_of(Core(actor_id, data, scope), name, options)


def check_group(class_name: str, method_name: str, group: str, known: tuple[str, ...]) -> None:
    if group not in known:
        raise MisuseError(
            f"{class_name}.{method_name}: {class_name} has no concurrency group {group!r}; it has "
            f"{', '.join(map(repr, known)) or 'none'}. Name it in @remote(concurrency_groups={{{group!r}: 2}})."
        )


def _retry_wire(retry: bool | ExceptionTypes) -> bytes | bool:
    if isinstance(retry, (list, tuple)):
        return pack_function(tuple(retry))[0]
    return bool(retry)
