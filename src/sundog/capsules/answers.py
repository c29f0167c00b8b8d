"""What the result of a task is to its caller: the same that a worker makes of it (`worker/results.py`).

Owns the items of generators as a capsule knows them (a count, the first ones, a digest; none is held), and the errors
of a result that its task returned but that nobody can get: too few values, or one that cannot be pickled. Runs in a
worker for runs that are captured, and in the process that runs a capsule again.
"""

from __future__ import annotations

from _blake2 import blake2b
from collections.abc import Iterable, Iterator
from types import GeneratorType

from sundog.capsules.rows import Outcome

_SHOWN = 5
_SHOWN_MAX = 300


class ItemTally:
    """The items of a generator, as they come."""

    def __init__(self) -> None:
        self.count = 0
        self._digest = blake2b(digest_size=16)
        self._is_known = True
        self._first: list[str] = []

    def add(self, item: object) -> None:
        """Count an item."""
        from sundog.capsules.capture import outcome_of_result

        found = outcome_of_result(item)
        self.count += 1
        self._is_known = self._is_known and bool(found.digest)
        self._digest.update(found.digest.encode())
        if self.count <= _SHOWN:
            self._first.append(found.text[:_SHOWN_MAX])

    def outcome(self) -> Outcome:
        """What its run has returned."""
        more = ", …" if self.count > _SHOWN else ""
        text = f"{self.count} item{'s' * (self.count != 1)}: {', '.join(self._first)}{more}"
        return Outcome(
            text=text if self.count else "0 items", digest=self._digest.hexdigest() if self._is_known else ""
        )


def outcome_of(result: object, name: str, returns: str) -> Outcome:
    """How a run ended whose function has returned.

    Args:
        result: what the function returned.
        name: of the task.
        returns: its num_returns.

    Raises:
        TypeError, ValueError: the result is not what was promised, or cannot be sent: in the words of a worker.
        BaseException: a generator raised.
    """
    from sundog.capsules.capture import outcome_of_result

    if isinstance(result, GeneratorType):
        items = ItemTally()
        for each in _wanted(result, name, returns):
            _check(each, name)
            items.add(each)
        return items.outcome()
    if returns.isdecimal() and int(returns) > 1:
        _check_count(result, name, int(returns))
    elif returns != "0":
        _check(result, name)
    return outcome_of_result(result)


def _wanted(items: Iterator[object], name: str, returns: str) -> Iterator[object]:
    """As many items as are results of the task."""
    wanted = int(returns) if returns.isdecimal() else None
    made = 0
    while wanted is None or made < wanted:
        try:
            each = next(items)
        except StopIteration:
            break
        made += 1
        yield each
    if wanted is not None and made < wanted:
        raise ValueError(f"{name}() has num_returns={wanted} but yielded {made} values.")


def _check_count(result: object, name: str, wanted: int) -> None:
    if not isinstance(result, Iterable):
        raise TypeError(
            f"{name}() has num_returns={wanted} but returned {type(result).__name__}, which is not iterable."
        )
    results = list(result)
    if len(results) != wanted:
        raise ValueError(f"{name}() has num_returns={wanted} but returned {len(results)} values.")
    for each in results:
        _check(each, name)


def _check(value: object, name: str) -> None:
    """Raise what a worker raises for a value that it cannot send."""
    from sundog.serialize.pack import pack

    try:
        pack(value, 1 << 62)
    except Exception as error:
        from sundog.serialize.inspect import explain

        raise TypeError(explain(value, error, what=f"the result of {name}()")) from error
