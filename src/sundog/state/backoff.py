"""How long to wait before an attempt is made again. Pure; used by owners."""

from __future__ import annotations

_FIRST_S = {"memory": 0.5}
_LAST_S = 30.0


def delay_s(attempt: int, why: str) -> float:
    """Seconds before attempt number `attempt` (1 is the first retry), after a failure of kind `why`.

    >>> [delay_s(n, "memory") for n in (1, 2, 3, 20)]
    [0.5, 1.0, 2.0, 30.0]
    """
    first = _FIRST_S.get(why, 0.0)
    return min(_LAST_S, first * 2.0 ** min(max(attempt, 1) - 1, 30))
