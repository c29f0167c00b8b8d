"""Do the arguments fit? Asked where the call is written, not in a process that dies of the answer.

Owns the compact form in which a signature travels with a handle. The common call, positional arguments in the
right number, is decided by comparing two numbers (`Signature.low`, `Signature.high`) in the caller's own code;
only others come to `check`. Pure; any process, any thread.
"""

from __future__ import annotations

from types import FunctionType

__tracebackhide__ = True  # pytest folds the frames of this file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable
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
            self.low = _MANY  # no call without keywords is right: `check` decides

    @classmethod
    def of(cls, function: Any, *, bound: bool = False) -> Signature:
        """Of a function, or (`bound`) of a method without its first parameter; anything goes if it does not tell.

        A wrapper may take other arguments than the function it wraps and names: its own count, for it is called.
        """
        if is_bare(function):
            found = _read(function)
        elif function is object.__init__:  # of a class without its own; `inspect` would parse C's text
            found = [("self", _POSITIONAL, False), ("args", _REST, False), ("kwargs", _NAMED, False)]
        else:
            import inspect

            try:
                told = inspect.signature(function, follow_wrapped=False).parameters.values()
            except (TypeError, ValueError):
                return cls(None)
            found = [(p.name, int(p.kind), p.default is not p.empty) for p in told]
        if bound and found and found[0][1] in (_POSITIONAL, _EITHER):
            found = found[1:]
        return cls(tuple(found))

    def __reduce__(self) -> tuple[object, ...]:
        return (Signature, (self.parameters,))

    def full(self) -> inspect.Signature:
        """As the module `inspect` has it; of defaults, only that they exist."""
        import inspect

        told = self.parameters
        if told is None:
            told = (("args", _REST, False), ("kwargs", _NAMED, False))
        return inspect.Signature(
            [
                inspect.Parameter(
                    each,
                    inspect._ParameterKind(kind),
                    default=_Omitted if optional else inspect.Parameter.empty,
                )
                for each, kind, optional in told
            ]
        )

    def check(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Raises TypeError if a call with these arguments could not even begin."""
        if self.parameters is None:
            return
        full = self.full()
        try:
            full.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}.remote(): {error}; it takes {full}.") from None


class _Default:
    def __repr__(self) -> str:
        return "…"


def is_bare(function: object) -> bool:
    """Whether a function is what its code says, so that `inspect`, which takes 15 ms to import, need not be asked.

    Not if something was hung on it: a wrapper names the function that it stands for, or a signature, or is marked.
    """
    return type(function) is FunctionType and not function.__dict__


def _read(function: FunctionType) -> list[_Parameter]:
    """The parameters of a bare function."""
    code = function.__code__
    names, count, only = code.co_varnames, code.co_argcount, code.co_posonlyargcount
    given = len(function.__defaults__ or ())
    found = [
        (name, _POSITIONAL if at < only else _EITHER, at >= count - given)
        for at, name in enumerate(names[:count])
    ]
    last = count + code.co_kwonlyargcount
    rest = names[last:]
    if code.co_flags & _HAS_REST:
        found.append((rest[0], _REST, False))
        rest = rest[1:]
    optional = function.__kwdefaults__ or {}
    found += [(name, _KEYWORD, name in optional) for name in names[count:last]]
    if code.co_flags & _HAS_NAMED:
        found.append((rest[0], _NAMED, False))
    return found


def is_generator(function: Callable[..., object]) -> bool:
    """Whether a call gives a generator, asynchronous or not."""
    if is_bare(function):
        return bool(function.__code__.co_flags & (_GENERATOR | _ASYNC_GENERATOR))
    import inspect

    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def check_yields(name: str, num_returns: object, yields: bool) -> None:
    """Refuse results one by one of a function that does not yield them.

    Raises:
        ValueError: `num_returns` is "streaming" or "dynamic", and the function is no generator function.
    """
    if not yields and num_returns in ("streaming", "dynamic"):
        raise ValueError(
            f"num_returns={num_returns!r} can only be used with generator functions, and {name}() has no 'yield'. "
            "Yield the results, or give num_returns as a number."
        )


def is_coroutine(function: Callable[..., object]) -> bool:
    """Whether a call gives a coroutine."""
    if is_bare(function):
        return bool(function.__code__.co_flags & _COROUTINE)
    import inspect

    return inspect.iscoroutinefunction(function)


_Omitted = _Default()
# As `inspect` numbers the kinds of parameters and names the flags of code.
_POSITIONAL, _EITHER, _REST, _KEYWORD, _NAMED = range(5)
_HAS_REST, _HAS_NAMED, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x4, 0x8, 0x20, 0x80, 0x200
