"""The order of a run: rounds over groups over systems, one system alive at a time.

```
 round 1:  start-up: sundog ray dask ppe pool raw   objects: sundog ray …   tasks: …
 round 2:  start-up: ray dask ppe pool raw sundog   …   (rotated, so that none always follows the same one)
```
Run by the runner. So every system meets the machine's slow and fast minutes alike, and no idle daemon of
one takes CPU from another. Never stops at a failing case, system or round; stops asking a system that twice
did not start.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.cases import Case
from benchmarks.hosts import CaseFailed, Host, HostLost, Launch, sample_start_up
from benchmarks.results import Results
from benchmarks.sampling import Effort
from benchmarks.systems import TITLES, open_system

START_UP = "start-up"
HEADLINE = "headline"
START_FAILURES_MAX = 2


@dataclass(frozen=True)
class Turn:
    """One system's go at one group in one round."""

    round: int
    group: str
    system: str
    cases: tuple[Case, ...]


def plan(
    cases: Sequence[Case],
    systems: Sequence[str],
    rounds: int,
    *,
    start_up: bool,
    one_group: bool,
    features: Callable[[str], frozenset[str]] = lambda name: open_system(name).features,
) -> list[Turn]:
    """Every turn of a run, in order. `one_group` lets all cases share one host, for short runs."""
    groups: dict[str, list[Case]] = {START_UP: []} if start_up else {}
    # Sizes first: a cold put must come before anything else has touched memory.
    ordered = sorted(cases, key=lambda case: case.group != "sizes") if one_group else cases
    for case in ordered:
        groups.setdefault(HEADLINE if one_group else case.group, []).append(case)
    turns: list[Turn] = []
    for number in range(rounds):
        shift = number % len(systems)
        for group, members in groups.items():
            for system in (*systems[shift:], *systems[:shift]):
                offered = features(system)
                due = tuple(c for c in members if c.needs <= offered and not (c.once and number))
                if due or group == START_UP:
                    turns.append(Turn(number, group, system, due))
    return turns


@dataclass
class Runner:
    """Carries out turns and collects results."""

    launches: dict[str, Launch]
    effort: Effort
    settle_s: float
    deadline: float
    results: Results = field(default_factory=Results)
    turns_not_run: int = 0
    _failed_starts: dict[str, int] = field(default_factory=dict)
    _measured: set[tuple[str, str]] = field(default_factory=set)

    def run(self, turns: Sequence[Turn]) -> Results:
        began = time.monotonic()
        for index, turn in enumerate(turns):
            title = f"round {turn.round + 1}, {turn.group}, {TITLES[turn.system]}"
            print(f"{time.monotonic() - began:5.0f} s  {index + 1}/{len(turns)}  {title}", file=sys.stderr)
            if time.monotonic() > self.deadline:
                self._run_out(turn)
            elif self._failed_starts.get(turn.system, 0) >= START_FAILURES_MAX:
                self._give_up(turn, "not run: the system did not start before")
            else:
                self._carry_out(turn)
        return self.results

    def _carry_out(self, turn: Turn) -> None:
        try:
            if turn.group == START_UP:
                self._sample_start_up(turn)
            else:
                self._measure_group(turn)
        except HostLost as exc:
            self._failed_starts[turn.system] = self._failed_starts.get(turn.system, 0) + 1
            self._give_up(turn, str(exc))

    def _sample_start_up(self, turn: Turn) -> None:
        settle_s = self.settle_s if turn.round == 0 else None
        readings, version = sample_start_up(turn.system, self.launches[turn.system], settle_s)
        self.results.versions[turn.system] = version
        self.results.add(turn.system, START_UP, readings)

    def _measure_group(self, turn: Turn) -> None:
        """Measure every case; after a case that took its host down, go on in a new one."""
        todo = list(turn.cases)
        while todo:
            with Host(turn.system, self.launches[turn.system], self.effort) as host:
                self.results.versions[turn.system] = host.version
                while todo and self._measure(host, turn.system, todo.pop(0)):
                    pass

    def _measure(self, host: Host, system: str, case: Case) -> bool:
        """True while the host can go on."""
        try:
            self.results.add(system, case.group, host.measure(case))
            self._measured.add((system, case.name))
        except CaseFailed as exc:
            self._fail(system, case.name, str(exc))
        except HostLost as exc:
            self._fail(system, case.name, str(exc))
            return False
        return True

    def _run_out(self, turn: Turn) -> None:
        """Past the deadline: fewer samples are only counted, but a case without any must say why."""
        self.turns_not_run += 1
        never = tuple(c for c in turn.cases if (turn.system, c.name) not in self._measured)
        if never:
            self._give_up(replace(turn, cases=never), "not run: the time budget was used up")

    def _give_up(self, turn: Turn, reason: str) -> None:
        for name in [case.name for case in turn.cases] or ["init to first result"]:
            self._fail(turn.system, name, reason)

    def _fail(self, system: str, name: str, reason: str) -> None:
        print(f"         failed: {TITLES[system]}, {name}: {reason}", file=sys.stderr)
        self.results.fail(system, name, reason)
