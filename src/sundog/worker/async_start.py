"""The constructor of an asyncio actor, inside the loop that its calls will run in.

Owns that one step. Runs in the main thread of a worker that becomes an actor; a plain worker never loads it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from sundog.signatures import is_coroutine

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable


T = TypeVar("T")
_INIT = "__init__"  # of these classes a coroutine function, which no type of a class can say


def make_in_loop(
    cls: type[object],
    positional: Iterable[object],
    named: dict[str, object],
    loop: asyncio.AbstractEventLoop | None,
) -> object:
    """An instance of the class, made while the loop runs.

    Args:
        loop: the actor's own; None for an actor without one, whose constructor alone is a coroutine.
    """
    made, error = _finish(_make(cls, positional, named), loop)
    if error is not None:
        raise error
    return made


def _finish(outcome: Coroutine[object, object, T], loop: asyncio.AbstractEventLoop | None) -> T:
    return asyncio.run(outcome) if loop is None else loop.run_until_complete(outcome)


async def _make(
    cls: type[object], positional: Iterable[object], named: dict[str, object]
) -> tuple[object, BaseException | None]:
    # The error becomes the result: a SystemExit that leaves a task would also be raised in the event loop.
    try:
        if not is_coroutine(cls.__init__):
            return cls(*positional, **named), None
        made = cls.__new__(cls, *positional, **named)
        await getattr(cls, _INIT)(made, *positional, **named)
        return made, None
    except BaseException as error:
        return None, error
