"""`@remote`: a function becomes a remote function, a class an actor class.

Owns the decorator and how it may be written. Runs in any process, at import time of the user's modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from sundog.actor import ActorClass, make_actor_class
from sundog.option_checks import MisuseError
from sundog.remote_function import RemoteFunction, make_remote_function

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal, Unpack

    from sundog.call_types import Decorator, DynamicDecorator, ListDecorator, StreamDecorator, Untyped
    from sundog.generator import ObjectRefGenerator
    from sundog.option_types import RemoteKeywords
    from sundog.refs import ObjectRef

__tracebackhide__ = True  # pytest folds the frames of this file

P = ParamSpec("P")
T = TypeVar("T")


@overload
def remote(target: type[T], /) -> ActorClass[T]: ...  # type: ignore[overload-overlap]
@overload
def remote(target: Callable[P, Untyped], /) -> RemoteFunction[..., Any]: ...
@overload
def remote(  # type: ignore[overload-overlap]
    target: Callable[P, Iterator[T]], /
) -> RemoteFunction[P, ObjectRefGenerator[T]]: ...
@overload
def remote(target: Callable[P, T], /) -> RemoteFunction[P, ObjectRef[T]]: ...
@overload
def remote(*, num_returns: Literal[1] | None = None, **options: Unpack[RemoteKeywords]) -> Decorator: ...  # type: ignore[overload-overlap]
@overload
def remote(*, num_returns: Literal["streaming"], **options: Unpack[RemoteKeywords]) -> StreamDecorator: ...
@overload
def remote(*, num_returns: Literal["dynamic"], **options: Unpack[RemoteKeywords]) -> DynamicDecorator: ...
@overload
def remote(*, num_returns: int, **options: Unpack[RemoteKeywords]) -> ListDecorator: ...
def remote(*args: object, **options: object) -> object:
    """Make a function a remote function, or a class an actor class.

    >>> import sundog
    >>> @sundog.remote
    ... def double(x):
    ...     return 2 * x
    >>> with sundog.init(num_cpus=1):
    ...     sundog.get(double.remote(21))
    42
    """
    if len(args) == 1 and not options and callable(args[0]):
        return _make_remote(args[0], {})
    if args:
        raise MisuseError(
            "@remote takes keyword options only, for example @remote(num_cpus=2); without options write @remote."
        )
    if not options:
        raise MisuseError(
            "@remote() needs at least one option; without options write @remote, with no brackets."
        )

    def decorate(target: object) -> object:
        return _make_remote(target, options)

    return decorate


def _make_remote(target: object, options: Any) -> RemoteFunction[..., object] | ActorClass[object]:
    if isinstance(target, (RemoteFunction, ActorClass)):
        raise TypeError(f"{target!r} is remote already: @remote was applied twice.")
    if isinstance(target, type):
        return make_actor_class(target, options)
    if callable(target):
        return make_remote_function(target, options)
    raise TypeError(f"@remote is for functions and classes, not for {type(target).__name__}.")
