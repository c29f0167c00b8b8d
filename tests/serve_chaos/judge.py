"""Which failed requests are allowed, and which are a defect of Serve. Pure.

An update alone fails nothing. A killed replica fails the requests that were in it, with 5xx and a cause. A killed proxy
breaks the connections that it had accepted; no connection is ever refused. A killed controller fails nothing. Every
request that is not broken is answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tests.serve_chaos.load import Asked


class Kill(NamedTuple):
    """A process that was killed. The times are those before and after the signal."""

    kind: str  # "replica", "proxy" or "controller"
    before: float
    after: float


class Update(NamedTuple):
    """A version, from the call that deployed it to the return of that call."""

    version: int
    began: float
    ended: float


# How long after the death of a process its requests and connections may be told of it: the scheduler of a busy machine.
LATE_S = 20.0


def violations(asked: Sequence[Asked], kills: Sequence[Kill], updates: Sequence[Update]) -> list[str]:
    """Every request that must not have ended as it did, in words."""
    found = []
    for each in asked:
        if each.status == 200:
            wrong = _wrong_version(each, updates)
        elif each.status >= 500:
            wrong = (
                ""
                if _met(kills, "replica", each.began, each.ended) and each.text.strip()
                else "no replica was killed"
            )
        elif "ConnectionRefused" in each.text:
            wrong = "nobody held the port"
        elif "TimeoutError" in each.text:
            wrong = "there was no answer"
        elif each.status == 0:
            wrong = "" if _met(kills, "proxy", each.good, each.ended) else "no proxy was killed"
        else:
            wrong = "the request was right"
        if wrong:
            found.append(
                f"status {each.status} after {each.ended - each.began:.3f} s, {wrong}: {each.text[:300]}"
            )
    return found


def _wrong_version(each: Asked, updates: Sequence[Update]) -> str:
    oldest = max((one.version for one in updates if one.ended < each.began), default=0)
    newest = max((one.version for one in updates if one.began < each.ended), default=0)
    return (
        "" if oldest <= each.version <= newest else f"version {each.version} is not of {oldest} to {newest}"
    )


def _met(kills: Sequence[Kill], kind: str, began: float, ended: float) -> bool:
    return any(each.kind == kind and each.before <= ended and each.after + LATE_S >= began for each in kills)


def summary(asked: Sequence[Asked], kills: Sequence[Kill], updates: Sequence[Update]) -> str:
    """One line: what was done, and how the requests ended."""
    by_status = Counter(each.status for each in asked)
    by_kind = Counter(each.kind for each in kills)
    ends = ", ".join(f"{status or 'broken'}: {count}" for status, count in sorted(by_status.items()))
    killed = ", ".join(f"{count} {kind}" for kind, count in sorted(by_kind.items())) or "nothing"
    slowest = max((each.ended - each.began for each in asked), default=0.0)
    return f"{len(updates)} updates, killed {killed}; {len(asked)} requests ({ends}), the slowest {slowest:.2f} s"
