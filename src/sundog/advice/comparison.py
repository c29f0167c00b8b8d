"""Two sessions compared, function by function: `sundog diff`, and the pytest plugin.

Owns the figures, what counts as worse, and the words for it. Reading is of the index; comparing is pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sundog.observe.index import Index, Progress, opened
from sundog.observe.sessions import Opened
from sundog.plain import field, plain

if TYPE_CHECKING:
    from sundog.plain import JsonObject

_LEAST_S = 0.01  # a mean that differs by less is noise,
_LEAST_OF_MANY_S = (
    0.0005  # but of many calls one that differs by more than this, and in all by more than the next
)
_LEAST_IN_ALL_S = 0.1
_LEAST_BYTES = 8 << 20
KINDS = ("slower", "larger", "failed", "spilled", "changed")


@plain(frozen=True)
class FunctionFigures:
    """What a function did in a session."""

    count: int = 0
    failed: int = 0
    total_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    spilled_bytes: int = 0
    codes: tuple[str, ...] = ()  # fingerprints of the code that ran

    @property
    def mean_s(self) -> float:
        """Seconds of one attempt."""
        return self.total_s / self.count if self.count else 0.0


@plain()
class SessionFigures:
    """A session's figures, by function, and how long it ran."""

    name: str
    length_s: float
    functions: dict[str, FunctionFigures] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """The figures as plain values, to be stored."""
        rows = {
            name: {key: getattr(each, key) for key in FunctionFigures.__annotations__}
            for name, each in self.functions.items()
        }
        return {"length_s": round(self.length_s, 4), "functions": rows}

    @classmethod
    def of_dict(cls, name: str, stored: JsonObject) -> SessionFigures:
        """What was stored.

        Raises:
            ValueError: it is not what `as_dict` gives.
        """
        try:
            rows = {
                function: FunctionFigures(**{**row, "codes": tuple(row.get("codes", ()))})
                for function, row in stored["functions"].items()
            }
            return cls(name, float(stored["length_s"]), rows)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the stored figures of {name!r} cannot be read: {error}") from None


@plain(frozen=True)
class ComparedFunction:
    """A function in both sessions."""

    name: str
    before: FunctionFigures
    after: FunctionFigures
    before_name: str = ""  # if the same code ran under another name then

    @property
    def slower(self) -> float:
        """By which share one attempt takes longer; 0 where the difference is noise, or one of them did not run."""
        count = min(self.before.count, self.after.count)
        longer_s = abs(self.after.mean_s - self.before.mean_s)
        is_much = longer_s >= _LEAST_OF_MANY_S and longer_s * count >= _LEAST_IN_ALL_S
        if not count or (longer_s < _LEAST_S and not is_much):
            return 0.0
        return self.after.mean_s / max(1e-9, self.before.mean_s) - 1.0

    @property
    def larger(self) -> float:
        """By which share its peak of memory is higher."""
        if not self.before.peak_bytes or abs(self.after.peak_bytes - self.before.peak_bytes) < _LEAST_BYTES:
            return 0.0
        return self.after.peak_bytes / self.before.peak_bytes - 1.0

    @property
    def is_changed(self) -> bool:
        """Whether other code ran under its name."""
        return bool(self.before.codes and self.after.codes) and self.before.codes != self.after.codes


# ---------------------------------------------------------------------- reading
def figures_of(chosen: Opened, told: Progress | None = None, *, since_s: float = 0.0) -> SessionFigures:
    """The figures of a session, or of what was submitted in it since a reading of the wall clock."""
    with opened(chosen.path, told) as index:
        began, ended = _bounds(index, since_s)
        return SessionFigures(chosen.name, max(0.0, ended - began), _functions(index, since_s))


def together(parts: Sequence[SessionFigures]) -> SessionFigures:
    """The figures of several sessions of one program, as if they were one."""
    functions: dict[str, FunctionFigures] = {}
    for name in {name for part in parts for name in part.functions}:
        rows = [part.functions[name] for part in parts if name in part.functions]
        functions[name] = FunctionFigures(
            sum(each.count for each in rows),
            sum(each.failed for each in rows),
            sum(each.total_s for each in rows),
            sum(each.cpu_s for each in rows),
            max(each.peak_bytes for each in rows),
            sum(each.spilled_bytes for each in rows),
            tuple(sorted({code for each in rows for code in each.codes})),
        )
    return SessionFigures(
        ", ".join(part.name for part in parts), sum(part.length_s for part in parts), functions
    )


def _bounds(index: Index, since_s: float) -> tuple[float, float]:
    [(first, last)] = index.rows(
        "SELECT min(submit_s), max(end_s) FROM attempts WHERE submit_s >= ?", since_s
    )
    return first or 0.0, last or 0.0


def _functions(index: Index, since_s: float) -> dict[str, FunctionFigures]:
    spilled: dict[str, int] = dict(
        index.rows(
            "SELECT n.text, sum(v.size_bytes) FROM moves v JOIN processes p ON p.process_id = v.maker "
            "JOIN made d ON d.process = p.id AND d.segment = v.segment AND d.kind = 14 "
            "JOIN attempts a ON a.task_id = d.task_id JOIN names n ON n.id = a.name "
            "WHERE v.kind = 'spill' AND a.submit_s >= ? GROUP BY 1",
            since_s,
        )
    )
    codes: dict[str, set[str]] = {}
    for name, code in index.rows(
        "SELECT DISTINCT n.text, n.code FROM attempts a JOIN names n ON n.id = a.name WHERE a.submit_s >= ?",
        since_s,
    ):
        if code:
            codes.setdefault(name, set()).add(code)
    return {
        name: FunctionFigures(
            count,
            failed,
            total or 0.0,
            cpu or 0.0,
            peak or 0,
            spilled.get(name) or 0,
            tuple(sorted(codes.get(name, ()))),
        )
        for name, count, failed, total, cpu, peak in index.rows(
            "SELECT n.text, count(*), sum(a.flags & 1), sum(max(0, a.end_s - a.start_s)), sum(a.cpu_s), "
            "max(a.peak_bytes) FROM attempts a JOIN names n ON n.id = a.name WHERE a.submit_s >= ? GROUP BY 1",
            since_s,
        )
    }


# ---------------------------------------------------------------------- comparing
def compare(before: SessionFigures, after: SessionFigures) -> list[ComparedFunction]:
    """Every function of either session, those whose time differs most first."""
    renamed = _renamed(before, after)
    names = {*before.functions, *after.functions} - {*renamed.values()}
    rows = []
    for name in names:
        then = renamed.get(name, name)
        rows.append(
            ComparedFunction(
                name,
                before.functions.get(then, FunctionFigures()),
                after.functions.get(name, FunctionFigures()),
                then,
            )
        )
    return sorted(rows, key=lambda row: (-abs(row.after.total_s - row.before.total_s), row.name))


def _renamed(before: SessionFigures, after: SessionFigures) -> dict[str, str]:
    """Functions that only the second session has -> their names in the first, known by their code.

    Code that has several names in one of the sessions tells nothing: it may be a wrapper of different functions.
    """
    found: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
    for side, figures in enumerate((before, after)):
        for name, row in figures.functions.items():
            if row.codes:
                found.setdefault(row.codes, ([], []))[side].append(name)
    return {
        new[0]: old[0]
        for old, new in found.values()
        if len(old) == len(new) == 1 and old[0] not in after.functions and new[0] not in before.functions
    }


def parse_limit(text: str) -> tuple[str, float]:
    """`slower=20%`, `larger=0.1`, `failed`, `spilled` or `changed`.

    >>> parse_limit("slower=20%"), parse_limit("failed")
    (('slower', 0.2), ('failed', 0.0))

    Raises:
        ValueError: it is none of these.
    """
    kind, _, amount = text.partition("=")
    kind, amount = kind.strip(), amount.strip()
    try:
        limit = float(amount[:-1]) / 100 if amount.endswith("%") else float(amount or 0)
    except ValueError:
        raise ValueError(f"{amount!r} in {text!r} is not a share: write slower=20% or slower=0.2") from None
    if kind not in KINDS or not 0 <= limit < math.inf:
        raise ValueError(
            f"{text!r} is not a limit: give one of {', '.join(KINDS)}, the first two with a share (slower=20%)"
        )
    return kind, limit


def breaches(before: SessionFigures, after: SessionFigures, limits: Sequence[tuple[str, float]]) -> list[str]:
    """What is worse than a limit allows, in words."""
    rows = compare(before, after)
    found = []
    for kind, limit in limits:
        if kind == "slower" and after.length_s - before.length_s > _LEAST_S:
            share = after.length_s / max(1e-9, before.length_s) - 1.0
            if share > limit:
                found.append(
                    f"the run is {share:.0%} slower: {before.length_s:.2f} s, now {after.length_s:.2f} s"
                )
        for row in rows:
            text = _breach(kind, limit, row)
            if text:
                found.append(text)
    return found


def _breach(kind: str, limit: float, row: ComparedFunction) -> str:
    before, after = row.before, row.after
    if kind == "slower" and row.slower > limit:
        return f"{row.name} is {row.slower:.0%} slower: {before.mean_s:.3f} s each, now {after.mean_s:.3f} s"
    if kind == "larger" and row.larger > limit:
        mib = 1 << 20
        was, now = before.peak_bytes / mib, after.peak_bytes / mib
        return f"{row.name} is {row.larger:.0%} larger: {was:.0f} MiB, now {now:.0f} MiB"
    if kind == "failed" and after.failed > before.failed:
        return f"{row.name} failed {after.failed} times, {before.failed} before"
    if kind == "spilled" and after.spilled_bytes > before.spilled_bytes * (1 + limit):
        return f"{row.name} had {after.spilled_bytes} bytes spilled, {before.spilled_bytes} before"
    if kind == "changed" and row.is_changed:
        return f"the code of {row.name} is another"
    return ""
