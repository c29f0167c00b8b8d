"""One random program: what it does, and how what it reads is held against the model.

Owns the program's rows and its dice. Runs in a thread of a driver, beside other programs of the same session. What
it does step by step is in `moves`; here is what every move uses: marks, fates, reading, the audit at the end.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import sundog
from tests.chaos.acts import Acts
from tests.chaos.bodies import ALWAYS, Broken, Fate
from tests.chaos.contents import EDGES, HUGE, LARGE, SMALL, described, difference, same
from tests.chaos.model import Actor, Entry
from tests.chaos.report import Report
from tests.chaos.stalls import Watch
from tests.chaos.truth import innermost, lie

# Where many sessions share few cores a new zygote takes half a minute; what never ends is found all the same.
PATIENCE_S = 120.0
_PATIENCE_TIMES = 3  # if the kernel says that our processes were not let run
MISSING = object()
"""What a read gives whose error was true."""


class Violation(AssertionError):
    """sundog broke a promise."""


class Unanswered(Exception):
    """What was asked has not come in time. Not a TimeoutError: some answers are."""


class SessionOver(Exception):
    """The node was killed, and said so: nothing more can be asked of this session."""


class Program:
    """The state of one random program."""

    def __init__(self, seed: str, key: str, acts: Acts) -> None:
        self.dice = random.Random(seed)
        self.key = key
        self.acts = acts
        self.folder = str(acts.folder)
        self.report = Report()
        self.entries: list[Entry] = []  # those that we hold a ref to
        self.tasks: list[Entry] = []  # one for each task of ours, for the audit
        self.actors: list[Actor] = []  # those that we can call
        self.all_actors: list[Actor] = []
        self.views: list[tuple[Any, Any]] = []
        self.guests = 0
        self.watch: Watch | None = None
        self._marks = 0

    # ------------------------------------------------------------------ dice
    def mark(self) -> str:
        """A name for a new object."""
        self._marks += 1
        return f"{self.key}-{self._marks}"

    def size(self) -> int:
        """A size: most are small, some live in shared memory, some are at the edge between the two."""
        edge = self.dice.choice(EDGES) + self.dice.randint(-40, 10)
        return self.dice.choices([SMALL, LARGE, HUGE, edge], [48, 34, 10, 8])[0]

    def chance(self, probability: float) -> bool:
        """One throw."""
        return self.dice.random() < probability

    def some(self, count: int = 1) -> list[Entry]:
        """Rows of objects that we hold refs to; fewer if there are fewer."""
        return self.dice.sample(self.entries, min(count, len(self.entries)))

    def task_row(self, value: Any, parents: list[Entry] | None = None, mark: str = "") -> Entry:
        """The row of a task to be, with its fate and its allowance."""
        dice = self.dice
        retries = dice.choice([-1, -1, -1, -1, 3, 1, 0, 0])
        fails = dice.choices([0, 1, 2, ALWAYS], [86, 7, 3, 4])[0]
        fate = Fate(
            crashes=dice.choices([0, 1, 2], [90, 8, 2])[0],
            fails=fails,
            nap_s=dice.uniform(0.001, 0.04) if self.chance(0.3) else 0.0,
        )
        endless = fails == ALWAYS and retries < 0
        entry = Entry(
            "task",
            mark or self.mark(),
            value,
            parents=parents or [],
            retries=retries,
            retry_exceptions=not endless and self.chance(0.7),
            fate=fate,
            since=self.acts.next_number,
        )
        self.tasks.append(entry)
        return entry

    def options(self, entry: Entry) -> dict[str, Any]:
        """The options that a row stands for."""
        # A class, not True: a task that reads a lost object fails every time, and for ever with max_retries=-1.
        return {
            "max_retries": entry.retries,
            "retry_exceptions": [Broken] if entry.retry_exceptions else False,
        }

    def hold(self, entry: Entry, ref: Any) -> Entry:
        """We have a ref to it now."""
        entry.ref = ref
        entry.object_id = ref.binary()
        self.entries.append(entry)
        return entry

    def drop(self, entry: Entry) -> None:
        """Forget the ref; the row stays with those made from it."""
        self.entries.remove(entry)
        entry.ref = None

    def steps_made(self) -> int:
        """A number that grows as long as this program gets on."""
        return self.report.counts["moves"] + self.report.counts["reads"]

    # ------------------------------------------------------------------ reading
    def patiently(self, ask: Callable[[float], Any], words: Callable[[], str]) -> Any:
        """What `ask` gives, which is told how long it may wait; asked again while the machine starves us."""
        for time in range(1, _PATIENCE_TIMES + 1):
            try:
                return ask(PATIENCE_S)
            except (sundog.exceptions.GetTimeoutError, Unanswered) as error:
                if self.watch is not None and time < _PATIENCE_TIMES and self.watch.starved(self.key):
                    continue
                why = self.watch.explain(self.key) if self.watch is not None else ""
                raise Violation(f"no answer in {time * PATIENCE_S:.0f} s: {words()}; {why}") from error

    def read(self, entry: Entry) -> Any:
        """The value behind a ref, which is the model's; or MISSING after an error that is true."""
        self.report.counts["reads"] += 1
        try:
            found = self.patiently(
                lambda patience_s: sundog.get(entry.ref, timeout=patience_s), lambda: self._words(entry)
            )
        except sundog.exceptions.RayError as error:
            return self.judge(entry, error)
        self.accept(entry, found)
        return found

    def accept(self, entry: Entry, found: Any) -> None:
        """A value came: is it the one, and could it come?"""
        if entry.value is not None and not same(found, entry.value):
            raise Violation(
                f"other bytes: {described(found)} instead of {described(entry.value)} "
                f"({difference(found, entry.value)}) "
                f"for {self._words(entry)}"
            )
        if entry.kind in ("task", "item"):
            runs, due = len(self.acts.runs(entry.mark)), entry.fate.crashes + entry.fate.fails
            if runs <= due and entry.kind == "task":
                raise Violation(
                    f"a value after {runs} runs, of which {due} cannot have given any: {self._words(entry)}"
                )
        self.report.counts["values"] += 1

    def judge(self, entry: Entry, error: BaseException) -> Any:
        """An error came: MISSING if it is true."""
        if isinstance(error, sundog.exceptions.LocalRayletDiedError) and self.acts.node_killed():
            self.report.errors[type(error).__name__] += 1
            raise SessionOver
        wrong = lie(error, entry, self.acts)
        if wrong is not None:
            raise Violation(
                f"an untrue error ({wrong}) for {self._words(entry)}: {error!r}\n{error}"
            ) from error
        self.report.errors[type(innermost(error)).__name__] += 1
        return MISSING

    def _words(self, entry: Entry) -> str:
        parents = ", ".join(each.mark for each in entry.parents)
        actor = entry.actor
        served = f", actor {actor.key} {actor.kind} restarts {actor.max_restarts}" if actor else ""
        return (
            f"{entry.kind} {entry.mark} ({entry.object_id.hex()}; retries {entry.retries}, "
            f"{'retry_exceptions, ' if entry.retry_exceptions else ''}{entry.fate}, "
            f"{'cancelled, ' if entry.cancelled else ''}made from [{parents}]{served}, "
            f"ran in {self.acts.runs(entry.mark)})"
        )

    # ------------------------------------------------------------------ the end
    def check_views(self) -> None:
        """Arrays that we kept beyond their refs still hold what they held."""
        for found, expected in self.views:
            if not same(found, expected):
                raise Violation(f"bytes changed under a view: {described(found)}, was {described(expected)}")

    def finish(self) -> None:
        """Read all that is left, then audit how it came about."""
        self.check_views()
        for entry in self.entries:
            self.read(entry)
        for actor in self.actors:
            if actor.detached:
                actor.ended = True
                sundog.kill(actor.handle)
        for entry in self.tasks:
            self._audit_task(entry)
        for actor in self.all_actors:
            self._audit_actor(actor)

    def forget(self) -> None:
        """Drop every ref and handle."""
        self.views.clear()
        for actor in self.all_actors:
            actor.handle = None
        for entry in self.entries:
            entry.ref = None
        self.entries.clear()
        self.tasks.clear()
        self.actors.clear()

    def _audit_task(self, entry: Entry) -> None:
        runs = self.acts.runs(entry.mark)
        if 0 <= entry.unbegun_after < len(runs):
            raise Violation(f"was begun after it was said that it never would be: {self._words(entry)}")
        if 0 <= entry.retries < len(runs) - 1:
            raise Violation(f"ran more often than it may: {self._words(entry)}; {self._history(runs)}")
        for number, pid in enumerate(runs[:-1]):
            due = entry.fate.crashes + (entry.fate.fails if entry.retry_exceptions else 0)
            if number < due or self.acts.kill_of(pid) is not None:
                self.report.counts["retries"] += 1
            elif self.acts.any_removed():
                self.report.counts["reconstructions"] += 1
            else:
                raise Violation(f"ran again after process {pid}, which nobody killed: {self._words(entry)}")

    def _history(self, pids: list[int]) -> str:
        """What was done to some processes, in words that help to find out why."""
        done = [act for act in self.acts.all() if act.pid in pids or act.kind == "member"]
        return "; ".join(f"{act.at:.3f} {act.kind} {act.pid} signal {act.signal} {act.name}" for act in done)

    def _audit_actor(self, actor: Actor) -> None:
        lives = [int(line) for line in self.acts.lines(f"{actor.key}.lives")]
        unexplained = [pid for pid in lives[:-1] if self.acts.kill_of(pid) is None]
        if len(unexplained) > actor.kicked:
            raise Violation(f"actor {actor.key} lived in {lives}, but nobody killed {unexplained}")
        if 0 <= actor.max_restarts < len(lives) - 1:
            raise Violation(f"actor {actor.key} restarted {len(lives) - 1} times, not {actor.max_restarts}")
        self.report.counts["restarts"] += max(0, len(lives) - 1)
        served: dict[int, list[int]] = {}
        for line in self.acts.lines(f"{actor.key}.calls"):
            pid, number = map(int, line.split())
            served.setdefault(pid, []).append(number)
        for pid, numbers in served.items():
            if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
                raise Violation(f"actor {actor.key} in {pid} served calls out of order: {numbers}")
        if actor.max_task_retries == 0:
            every = [number for numbers in served.values() for number in numbers]
            if len(every) != len(set(every)):
                raise Violation(f"actor {actor.key} served a call twice, without a retry: {served}")
