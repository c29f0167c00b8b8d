"""What a worker of a pool runs: the user's function, called in one of a few ways.

Owns the loaded function, what stands for an exception among the results, and that a pool's initializer runs once in
each process. Made in the driver with the pickled function, which travels once to each worker; called in workers. Small,
because every worker of a pool imports it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable

# The token of a pool, and the id of the object that has its initializer with the initializer's arguments.
Initializer = tuple[bytes, bytes]
_Function = Callable[..., object]
_Arguments = tuple[tuple[object, ...], dict[str, object]]
_prepared: set[bytes] = set()  # pools whose initializer has run in this process


class RemoteTraceback(Exception):
    """Shows, as the cause of an exception, where it was raised in the other process."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Failure:
    """An exception in the place of a result, so that the other items of its chunk are kept."""

    def __init__(self, error: BaseException, traceback_text: str = "") -> None:
        self.error = error
        self.traceback_text = traceback_text

    def exception(self) -> BaseException:
        """Give the exception, caused by its remote traceback as in the standard library."""
        if self.traceback_text and self.error.__cause__ is None:
            self.error.__cause__ = RemoteTraceback(self.traceback_text)
        return self.error


def _failure(error: Exception) -> Failure:
    import traceback

    return Failure(error, "".join(traceback.format_exception(error)))


class Calls:
    """A user's function as a pool sends it. `way` says what the arguments are: see `WAYS`."""

    def __init__(self, blob: bytes, way: str, initializer: Initializer | None) -> None:
        self._facts = (blob, way, initializer)
        self._func: Callable[..., object] | None = None
        self._way = WAYS[way]

    def __reduce__(self) -> tuple[Callable[..., Calls], tuple[bytes, str, Initializer | None]]:
        return (_load, self._facts)

    def __call__(self, *args: object, **kwargs: object) -> object:
        if self._facts[2] is not None:
            prepare(self._facts[2])
        return self._way(self._func, args, kwargs)  # only "any" and "greet" have no function


def _load(blob: bytes, way: str, initializer: Initializer | None) -> Calls:
    calls = Calls(b"", way, initializer)
    calls._func = pickle.loads(blob) if blob else None
    return calls


def prepare(initializer: Initializer) -> None:
    """Run a pool's initializer, unless it has run in this process."""
    token, ref = initializer
    if token not in _prepared:
        import sundog

        made: sundog.ObjectRef[tuple[Callable[..., object], tuple[object, ...]]] = sundog.ObjectRef(ref)
        function, arguments = sundog.get(made)
        function(*arguments)
        _prepared.add(token)


def _call(func: _Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    try:
        return func(*args, **kwargs)
    except Exception as error:
        return _failure(error)


def _apply(func: _Function, args: tuple[_Arguments], _kwargs: dict[str, object]) -> object:
    return _call(func, *args[0])


def _map(func: _Function, args: tuple[Iterable[object]], _kwargs: dict[str, object]) -> list[object]:
    results: list[object] = []
    for item in args[0]:
        try:
            results.append(func(item))
        except Exception as error:
            results.append(_failure(error))
    return results


def _star(func: _Function, args: tuple[Iterable[object]], _kwargs: dict[str, object]) -> list[object]:
    return _map(lambda item: func(*item), args, {})


def _greet(_func: object, _args: tuple[object, ...], _kwargs: dict[str, object]) -> None:
    """Nothing: the initializer is what counts."""


def _any(
    _func: object,
    args: tuple[_Function, str, tuple[object, ...], dict[str, object]],
    _kwargs: dict[str, object],
) -> object:
    func, way, rest, kwargs = args
    return WAYS[way](func, rest, kwargs)


# Each takes a function, arguments in a tuple that differs from way to way, and keyword arguments.
WAYS: dict[str, Callable[..., object]] = {
    "call": _call,  # the arguments themselves; one result
    "apply": _apply,  # one pair of arguments and keyword arguments, which may be refs; one result
    "map": _map,  # a list of items; a list of results
    "star": _star,  # a list of tuples of arguments; a list of results
    "any": _any,  # function, way, arguments, keyword arguments
    "greet": _greet,  # nothing
}
