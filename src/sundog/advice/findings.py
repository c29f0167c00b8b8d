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
NOISE_S = 0.05  # two runs of one program differ by this much: workers start sooner or later
LEAST_S = NOISE_S
EVERYWHERE = "*"
_DOUBTFUL = 0.25  # an error of the simulator above this share of the run makes its gains doubtful
_CAUSE_SHARE = 0.3  # a cause must gain at least this share of its echo's gain to explain the echo


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
    least_share: float = LEAST_SHARE  # the share of the run that it must gain to be reported
    sites: frozenset[str] = frozenset()  # other lines that it is about; EVERYWHERE for all
    best: Run | None = None  # the run if all is saved that the records leave open; then a range is predicted
    why_range: str = "the records do not tell which"


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
    least_s: float = -1.0  # the least that is predicted, of a range; -1: it is no range
    why_range: str = "the records do not tell which"

    @property
    def predicted_least_s(self) -> float:
        """The least that the run would take; `predicted_s` is the most."""
        return self.least_s if self.least_s >= 0 else self.predicted_s

    @property
    def is_range(self) -> bool:
        """Whether the records leave open how much is gained."""
        return self.predicted_s - self.predicted_least_s > NOISE_S


Finder = Callable[[Run, Sources], Iterator[Draft]]


def weigh(run: Run, drafts: Sequence[Draft], played_s: float) -> list[Finding]:
    """The drafts that are worth saying, the one that gains most first.

    Args:
        run: as it was.
        drafts: what was found.
        played_s: how long the run takes in the simulator, unchanged. Predictions are corrected by its error.
    """
    found: list[tuple[Finding, frozenset[str]]] = []
    scale = run.length_s / played_s if played_s > 0 else 1.0
    error = abs(played_s / run.length_s - 1.0) if run.length_s > 0 else 0.0
    doubt = error if error > _DOUBTFUL else 0.0  # a gain below the error of the simulator may be no gain
    for draft in drafts:
        try:
            # What the simulator lacks of a run of many small tasks is their cost, which is no more.
            error_of = min(1.0, scale) if draft.kind == "tasks-too-small" else scale
            predicted = play(draft.run).length_s * error_of
            least = play(draft.best).length_s * error_of if draft.best is not None else predicted
        except CannotPlay:
            continue
        least = min(least, predicted)
        gain = run.length_s - (predicted + least) / 2
        if gain < LEAST_S or gain < max(draft.least_share, doubt) * run.length_s:
            continue
        place = place_of(draft.site)
        file, line = (place.file, place.line) if place is not None else ("", 0)
        facts = (draft.often, draft.cost_s, gain, predicted, draft.evidence, draft.change, draft.diff)
        finding = Finding(
            draft.kind, draft.title, file, line, *facts, least_s=least, why_range=draft.why_range
        )
        found.append((finding, draft.sites | {draft.site}))
    return _without_echoes(sorted(found, key=lambda each: -each[0].gain_s))


# Pairs of faults at the same place: the first is the cause, the second its echo.
_ECHOES = {
    "one-actor": ("unbalanced-actors", "stragglers"),
    "get-in-loop": (
        "serial-part",
        "driver-bound",
        "get-in-order",
        "nested-get",
        "tasks-too-small",
        "stragglers",
    ),
    "get-in-order": ("serial-part",),
    "large-argument": ("serial-part", "driver-bound", "tasks-too-small", "spilling", "too-many-workers"),
    "closure": ("serial-part", "driver-bound", "too-many-workers", "get-in-loop", "tasks-too-small"),
    "retries": ("stragglers", "get-in-order"),
    "tasks-too-small": ("driver-bound", "serial-part", "nested-get"),
    "nested-get": ("stragglers", "one-actor"),
    "unbalanced-actors": ("stragglers", "get-in-order"),
    "memory-bound": ("stragglers",),
    "get-between-stages": ("stragglers", "serial-part"),
    "polling": ("serial-part", "driver-bound"),
    "actor-per-item": ("get-in-loop", "serial-part"),
    "cpus-unused": ("stragglers",),
    "too-many-workers": ("stragglers",),
    "spilling": ("stragglers", "serial-part", "driver-bound"),
}


def _without_echoes(found: list[tuple[Finding, frozenset[str]]]) -> list[Finding]:
    said: dict[tuple[str, str, int], Finding] = {}
    for each, sites in found:
        explained = any(
            each.kind in _ECHOES.get(cause.kind, ())
            and (sites & others or EVERYWHERE in sites | others)
            and cause.gain_s >= _CAUSE_SHARE * each.gain_s
            for cause, others in found
        )
        if not explained:  # of two ways to mend one fault, keep the one that gains more
            said.setdefault((each.kind, each.file, each.line), each)
    return list(said.values())
