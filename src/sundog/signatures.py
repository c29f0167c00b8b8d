"""Do the arguments fit? Asked where the call is written, not in a process that dies of the answer.

Owns the compact form in which a signature travels with a handle. The common call, positional arguments in the
right number, is decided by comparing two numbers (`Signature.low`, `Signature.high`) in the caller's own code;
only others come to `check`. Pure; any process, any thread.
"""

from __future__ import annotations

import inspect
from typing import Any

_MANY = 1 << 30
# name, kind, whether it has a default
_Parameter = tuple[str, int, bool]


class Signature:
    """What a function or method takes; small when pickled.

    >>> Signature.of(lambda a, b=1: None).check("f", (1, 2, 3), {})
    Traceback (most recent call last):
    TypeError: f.remote(): too many positional arguments; it takes (a, b=…).
    """

    __slots__ = ("high", "low", "parameters")

    def __init__(self, parameters: tuple[_Parameter, ...] | None) -> None:
        self.parameters = parameters
        self.low, self.high = 0, _MANY
        if parameters is None:
            return
        positional = [p for p in parameters if p[1] in (_POSITIONAL, _EITHER)]
        self.low = sum(not optional for _, _, optional in positional)
        if not any(p[1] == _REST for p in parameters):
            self.high = len(positional)
        if any(kind == _KEYWORD and not optional for _, kind, optional in parameters):
            self.low = _MANY  # never right without keywords: `check` decides

    @classmethod
    def of(cls, function: Any, *, bound: bool = False) -> Signature:
        """Of a function, or (`bound`) of a method without its first parameter; anything goes if it does not tell."""
        try:
            found = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return cls(None)
        if bound and found and found[0].kind in (_POSITIONAL, _EITHER):
            found = found[1:]
        return cls(tuple([(p.name, int(p.kind), p.default is not p.empty) for p in found]))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Signature, (self.parameters,))

    def check(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises TypeError if a call with these arguments could not even begin."""
        if self.parameters is None:
            return
        full = inspect.Signature(
            [
                inspect.Parameter(
                    each,
                    inspect._ParameterKind(kind),
                    default=_Omitted if optional else inspect.Parameter.empty,
                )
                for each, kind, optional in self.parameters
            ]
        )
        try:
            full.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}.remote(): {error}; it takes {full}.") from None


class _Default:
    def __repr__(self) -> str:
        return "…"


_Omitted = _Default()
_POSITIONAL = int(inspect.Parameter.POSITIONAL_ONLY)
_EITHER = int(inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST = int(inspect.Parameter.VAR_POSITIONAL)
_KEYWORD = int(inspect.Parameter.KEYWORD_ONLY)
