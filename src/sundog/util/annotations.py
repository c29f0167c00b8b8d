"""Decorators that mark how stable a public name is. They add a note and change no behaviour."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, overload

from sundog.notices import RayDeprecationWarning

__all__ = ["AnnotationType", "Deprecated", "DeveloperAPI", "PublicAPI", "RayDeprecationWarning"]

F = TypeVar("F", bound=Callable[..., object])


if TYPE_CHECKING:

    class Marker(Protocol):
        """A decorator that is used bare, or with options."""

        @overload
        def __call__(self, target: F, /) -> F: ...
        @overload
        def __call__(self, **options: str) -> Callable[[F], F]: ...


class AnnotationType(Enum):
    """What a name is marked as."""

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


def _marker(label: str, options: frozenset[str]) -> Marker:
    def mark(*args: object, **kwargs: object) -> object:
        unknown = sorted(set(kwargs) - options)
        if unknown:
            raise ValueError(f"{label} takes {sorted(options)}, not {unknown}")
        if len(args) == 1 and not kwargs and callable(args[0]):
            _note(args[0], _annotated=getattr(args[0], "__name__", ""), _annotated_type=label)
            return args[0]
        return lambda target: mark(target)

    mark.__name__ = label
    mark.__doc__ = f"Mark a function or class as {label}; usable bare or with {sorted(options)}."
    return cast("Marker", mark)


PublicAPI = _marker("PublicAPI", frozenset({"stability", "api_group"}))
DeveloperAPI = _marker("DeveloperAPI", frozenset())


@overload
def Deprecated(target: F, /) -> F: ...
@overload
def Deprecated(*, message: str = ..., warning: bool = ...) -> Callable[[F], F]: ...
def Deprecated(
    target: Callable[..., object] | None = None, /, *, message: str = "", warning: bool = False
) -> object:
    """Mark a function or class as going away.

    Args:
        target: What is marked, when the decorator is used bare.
        message: What to use instead; part of the warning.
        warning: True also warns (`RayDeprecationWarning`) on every call.
    """
    if target is None:
        return lambda found: _deprecate(found, message, warning)
    return _deprecate(target, message, warning)


def _note(target: object, **facts: object) -> None:
    for name, value in facts.items():
        setattr(target, name, value)


def _deprecate(target: Callable[..., object], message: str, warning: bool) -> object:
    _note(target, _annotated_type="Deprecated")
    if not warning:
        return target
    text = f"{target.__qualname__} is deprecated. {message}".rstrip()

    if inspect.isclass(target):
        return _warn_when_made(target, text)

    @functools.wraps(target)
    def warn_and_call(*args: object, **kwargs: object) -> object:
        warnings.warn(text, RayDeprecationWarning, stacklevel=2)
        return target(*args, **kwargs)

    return warn_and_call


def _warn_when_made(cls: type, text: str) -> type:
    construct: Callable[..., None] = cls.__init__  # type: ignore[misc]

    @functools.wraps(construct)
    def warn_and_construct(self: object, *args: object, **kwargs: object) -> None:
        warnings.warn(text, RayDeprecationWarning, stacklevel=2)
        construct(self, *args, **kwargs)

    cls.__init__ = warn_and_construct  # type: ignore[misc]
    return cls
