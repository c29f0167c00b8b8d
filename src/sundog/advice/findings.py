"""Findings: what a fault costs, what to change, and what the run would take then.

Owns the row of a finding, the order of findings, and what is not worth saying. The finders (`findings_*.py`) each look
for faults of one kind and give the run as it would have been without; whatever they find is played by the simulator,
and said only if that gains enough. Pure but for the source files, which are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sundog.advice.run import Run
from sundog.advice.simulator import CannotPlay, play
from sundog.advice.source import Sources, place_of
from sundog.plain import plain

LEAST_SHARE = 0.05
LEAST_S = 0.05


@plain()
class Draft:
    """A fault that the records show, and the run without it."""

    kind: str
    title: str
    site: str
    often: int
    cost_s: float
    evidence: str
    change: str
    run: Run
    diff: str = ""
    least_share: float = LEAST_SHARE  # of the run that it must gain to be worth saying


@plain(frozen=True)
class Finding:
    """A fault, its price, and what mending it gives."""

    kind: str
    title: str
    file: str
    line: int
    often: int
    cost_s: float
    gain_s: float
    predicted_s: float
    evidence: str
    change: str
    diff: str = ""


Finder = Callable[[Run, Sources], Iterator[Draft]]


def weigh(run: Run, drafts: Sequence[Draft], played_s: float) -> list[Finding]:
    """The drafts that are worth saying, the one that gains most first.

    Args:
        run: as it was.
        drafts: what was found.
        played_s: how long the run takes in the simulator, unchanged. Predictions are corrected by its error.
    """
    found: list[Finding] = []
    scale = run.length_s / played_s if played_s > 0 else 1.0
    for draft in drafts:
        try:
            predicted = play(draft.run).length_s * scale
        except CannotPlay:
            continue
        gain = run.length_s - predicted
        if gain < LEAST_S or gain < draft.least_share * run.length_s:
            continue
        place = place_of(draft.site)
        found.append(
            Finding(
                draft.kind,
                draft.title,
                place.file if place is not None else "",
                place.line if place is not None else 0,
                draft.often,
                draft.cost_s,
                gain,
                predicted,
                draft.evidence,
                draft.change,
                draft.diff,
            )
        )
    return _without_echoes(sorted(found, key=lambda each: -each.gain_s))


# A fault that another one at the same place explains: the first is the cause, the second its echo.
_ECHOES = {
    "one-actor": ("unbalanced-actors", "stragglers"),
    "get-in-loop": ("serial-part", "driver-bound", "get-in-order", "nested-get"),
    "large-argument": ("serial-part", "driver-bound", "tasks-too-small", "spilling"),
    "closure": ("serial-part", "driver-bound"),
    "retries": ("stragglers", "get-in-order"),
    "tasks-too-small": ("driver-bound",),
    "nested-get": ("stragglers",),
    "unbalanced-actors": ("stragglers", "get-in-order"),
    "memory-bound": ("stragglers",),
    "too-many-workers": ("stragglers",),
    "stragglers": ("get-in-order",),
}


def _without_echoes(found: list[Finding]) -> list[Finding]:
    silent = {
        echo
        for finding in found
        for echo in _ECHOES.get(finding.kind, ())
        if finding.gain_s >= 0.3 * max((each.gain_s for each in found if each.kind == echo), default=0.0)
    }
    best: dict[tuple[str, str, int], Finding] = {}
    for each in found:  # two ways to mend one fault: the one that gains more
        best.setdefault((each.kind, each.file, each.line), each)
    found = list(best.values())
    loops = {(each.file, each.line) for each in found if each.kind == "get-in-loop"}
    small = {(each.file, each.line) for each in found if each.kind == "tasks-too-small"}
    return [
        each
        for each in found
        if each.kind not in silent
        and not (each.kind == "tasks-too-small" and (each.file, each.line) in loops & small)
    ]
