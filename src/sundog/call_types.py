"""What `.remote()` takes, for type checkers: the function's own arguments, each of them or a ref to it.

Owns: the shapes by which a type checker reads the parameters of a function or a class, and what `@remote` and
`@method` make of them. Refuses: running. Only type checkers import this module, so it costs a program nothing.

Python has no type for "these parameters, each of them or a ref". So `.remote()` has one overload with the function's
own parameters (names, defaults and keywords included) and one for each number of leading arguments that may be refs:
`Takes2` is anything whose calls begin with two positional arguments; its other arguments are as the function has
them. A ref that is passed by keyword is the one case that these types refuse although it works.

mypy reads such shapes from a method only, hence `_takes`: nothing ever calls it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, final, overload

from sundog.actor import ActorClass
from sundog.actor_method import ActorMethod
from sundog.generator import DynamicObjectRefGenerator, ObjectRefGenerator
from sundog.refs import ObjectRef
from sundog.remote_function import RemoteFunction

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")
Item = TypeVar("Item")
Out = TypeVar("Out", covariant=True)
A = TypeVar("A", contravariant=True)
B = TypeVar("B", contravariant=True)
C = TypeVar("C", contravariant=True)
D = TypeVar("D", contravariant=True)


class Takes1(Protocol[A, P, Out]):
    """A call with at least one positional argument."""

    def _takes(self, a: A, /, *args: P.args, **kwargs: P.kwargs) -> Out: ...


class Takes2(Protocol[A, B, P, Out]):
    """A call with at least two positional arguments."""

    def _takes(self, a: A, b: B, /, *args: P.args, **kwargs: P.kwargs) -> Out: ...


class Takes3(Protocol[A, B, C, P, Out]):
    """A call with at least three positional arguments."""

    def _takes(self, a: A, b: B, c: C, /, *args: P.args, **kwargs: P.kwargs) -> Out: ...


class Takes4(Protocol[A, B, C, D, P, Out]):
    """A call with at least four positional arguments."""

    def _takes(self, a: A, b: B, c: C, d: D, /, *args: P.args, **kwargs: P.kwargs) -> Out: ...


class Makes(Protocol[P, Out]):
    """An actor class by the parameters of its constructor."""

    @property
    def _cls(self) -> Callable[P, Out]: ...


class Makes1(Protocol[A, P, Out]):
    """An actor class whose constructor takes at least one positional argument."""

    @property
    def _cls(self) -> Callable[Concatenate[A, P], Out]: ...


class Makes2(Protocol[A, B, P, Out]):
    """An actor class whose constructor takes at least two positional arguments."""

    @property
    def _cls(self) -> Callable[Concatenate[A, B, P], Out]: ...


class Makes3(Protocol[A, B, C, P, Out]):
    """An actor class whose constructor takes at least three positional arguments."""

    @property
    def _cls(self) -> Callable[Concatenate[A, B, C, P], Out]: ...


class Makes4(Protocol[A, B, C, D, P, Out]):
    """An actor class whose constructor takes at least four positional arguments."""

    @property
    def _cls(self) -> Callable[Concatenate[A, B, C, D, P], Out]: ...


@final
class Untyped:
    """A result that only `Any` fits: the function says nothing of what it returns."""


class Decorator(Protocol):
    """`@remote(num_cpus=2)`: takes a function or a class, as `@remote` does."""

    @overload
    def __call__(self, target: type[T], /) -> ActorClass[T]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, target: Callable[P, Untyped], /) -> RemoteFunction[..., Any]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[P, Iterator[Item]], /
    ) -> RemoteFunction[P, ObjectRefGenerator[Item]]: ...
    @overload
    def __call__(self, target: Callable[P, T], /) -> RemoteFunction[P, ObjectRef[T]]: ...


class ListDecorator(Protocol):
    """`@remote(num_returns=3)`: takes a function; its calls return a list of refs."""

    def __call__(self, target: Callable[P, object], /) -> RemoteFunction[P, list[ObjectRef[Any]]]: ...


class StreamDecorator(Protocol):
    """`@remote(num_returns="streaming")`: takes a generator function; its calls return a generator of refs."""

    def __call__(
        self, target: Callable[P, Iterator[Item]], /
    ) -> RemoteFunction[P, ObjectRefGenerator[Item]]: ...


class DynamicDecorator(Protocol):
    """`@remote(num_returns="dynamic")`: takes a generator function; its calls return one ref to all the refs."""

    def __call__(
        self, target: Callable[P, Iterator[Item]], /
    ) -> RemoteFunction[P, ObjectRef[DynamicObjectRefGenerator]]: ...


class TypedMethod(Generic[S, P, R, Out]):
    """A method under `@method`: called as it is on an instance, and by `.remote()` on a `typed` handle."""

    @overload
    def __get__(self, instance: None, owner: object) -> ActorMethod[P, Out]: ...
    @overload
    def __get__(self, instance: object, owner: object) -> Callable[P, R]: ...
    def __get__(self, instance: object, owner: object) -> object:
        raise NotImplementedError

    def __call__(self, instance: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError


class MethodDecorator(Protocol):
    """`@method(concurrency_group="io")`: takes a method, as `@method` does."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[S, P], Untyped], /
    ) -> TypedMethod[S, ..., Any, Any]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[S, P], Coroutine[object, object, T]], /
    ) -> TypedMethod[S, P, Coroutine[object, object, T], ObjectRef[T]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[S, P], Iterator[Item]], /
    ) -> TypedMethod[S, P, Iterator[Item], ObjectRefGenerator[Item]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[S, P], AsyncIterator[Item]], /
    ) -> TypedMethod[S, P, AsyncIterator[Item], ObjectRefGenerator[Item]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[S, P], T], /) -> TypedMethod[S, P, T, ObjectRef[T]]: ...


class MethodListDecorator(Protocol):
    """`@method(num_returns=3)`: takes a method; its calls return a list of refs."""

    def __call__(
        self, function: Callable[Concatenate[S, P], T], /
    ) -> TypedMethod[S, P, T, list[ObjectRef[Any]]]: ...
