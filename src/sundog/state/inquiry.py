"""The search for deadlocks: whom to ask, when, and what to believe.

    process ──stalled──► Search ──Ask──► processes ──told──► Search ──Break──► the get that closed the cycle

Owns: the rounds of questions. A process says by itself only that it has gets that have been blocked for long; then a
round asks such processes, and the owners of what they wait for, until nothing is left to ask. A cycle found in a round
is only a suspicion: reports are not made at one instant. A second round, begun after the first has ended, must find
the same waits for the same reasons. A wait keeps its number while it lasts, so each was blocked all the time in
between, and all of them at once: that is a deadlock, and will stay one.
Refuses: sockets and clocks. Late, unknown and repeated answers change nothing.
Runs in the node program, on its only thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sundog.ids import PROCESS_BYTES, TASK_BYTES
from sundog.plain import NamedTuple
from sundog.state.deadlock_text import WaitingParty, links
from sundog.state.wait_facts import ARGUMENTS, BEHIND, Report
from sundog.state.wait_graph import NOBODY, Builder, Vertex, World, cycle, knot, stuck

if TYPE_CHECKING:
    from sundog.plain import JsonObject

SETTLE_S = 0.05
"""Between the first word of a stall and the questions: the others of a cycle stall at about the same time."""
CONFIRM_S = 0.3
FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 30.0
ANSWER_S = 3.0
"""A process that does not answer (stopped, starved) counts as one that goes on."""
TASKS_MAX = 5_000
"""More than this is not asked for in a round; what is not asked for counts as going on."""


class Ask(NamedTuple):
    """Ask a process for its report, and where these tasks of its own are."""

    process: bytes
    number: int
    tasks: tuple[bytes, ...]


class Break(NamedTuple):
    """Raise in this wait; ``links`` are the facts of the error, this wait first."""

    process: bytes
    serial: int
    links: list[JsonObject]


class Surroundings(NamedTuple):
    """What the node knows, as questions."""

    world: World
    everyone: Callable[[], frozenset[bytes]]
    """All processes, if the session is such that no other process could come and help; else empty."""
    who: Callable[[bytes], WaitingParty]


class _Round:
    """One round: reports so far, and the processes that have yet to answer."""

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.began_at = now
        self.reports: dict[bytes, Report] = {}
        self.open: dict[bytes, int] = {}  # process -> questions without an answer
        self.asked: set[bytes] = set()  # processes, and tasks
        self.everyone: frozenset[bytes] = frozenset()

    def add(self, process: bytes, report: Report) -> None:
        before = self.reports.get(process)
        if before is not None:
            # A later answer only adds tasks: all waits of a process must be of one moment.
            report = before._replace(tasks=tuple({**dict(report.tasks), **dict(before.tasks)}.items()))
        self.reports[process] = report
        self.open[process] -= 1
        if not self.open[process]:
            del self.open[process]

    def wanted(self) -> list[bytes]:
        """Tasks that a process waits for and no process has told of."""
        known = {task for report in self.reports.values() for task, _ in report.tasks}
        for report in self.reports.values():
            for slot in report.slots:
                known.update(slot.running)
        found: dict[bytes, None] = {}
        for report in self.reports.values():
            for wait in report.waits:
                found.update(dict.fromkeys(each[:TASK_BYTES] for each in wait.targets))
            for _, fact in report.tasks:
                if fact.where == ARGUMENTS:
                    found.update(dict.fromkeys(each[:TASK_BYTES] for each in fact.needs))
                elif fact.where == BEHIND:
                    found[fact.ahead] = None
        return [task for task in found if task not in known and task not in self.asked]


class Search:
    """The search of one node."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self.stalled: dict[bytes, int] = {}
        self._round: _Round | None = None
        self._numbers = 0
        self._next_at: float | None = None
        self._pause_s = FIRST_PAUSE_S
        self._suspects: dict[Vertex, Mapping[Vertex, tuple[Vertex, ...]]] = {}
        self._ended_at = float("-inf")

    # ------------------------------------------------------------------ events

    def on_stalled(self, process: bytes, count: int, now: float) -> None:
        """A process has this many gets and waits that have been blocked for long."""
        if count <= 0:
            self.stalled.pop(process, None)
            return
        more = count > self.stalled.get(process, 0)
        self.stalled[process] = count
        if more:
            self._pause_s = FIRST_PAUSE_S
            soon = max(now + SETTLE_S, self._ended_at + CONFIRM_S)
            self._next_at = soon if self._next_at is None else min(soon, self._next_at)

    def on_gone(self, process: bytes) -> None:
        """A process is gone: what it told is void."""
        self.stalled.pop(process, None)
        if self._round is not None and process in self._round.asked:
            self._round = None
            self._suspects = {}

    def on_told(self, process: bytes, number: int, report: Report, now: float) -> list[Ask | Break]:
        """A process answers."""
        current = self._round
        if current is None or current.number != number or process not in current.open:
            return []
        current.add(process, report)
        return self._proceed(current, now) if not current.open else []

    def next_in_s(self, now: float) -> float | None:
        """When ``tick`` has something to do; None: when something happens."""
        if self._round is not None:
            return max(0.0, self._round.began_at + ANSWER_S - now)
        if self._next_at is None or not self.stalled:
            return None
        return max(0.0, self._next_at - now)

    def tick(self, now: float) -> list[Ask | Break]:
        """Begin a round if it is time, or end one that waits for a process that does not answer."""
        if self._round is not None:
            if now < self._round.began_at + ANSWER_S:
                return []
            return self._judge(self._round, now)
        if self._next_at is None or now < self._next_at or not self.stalled:
            return []
        self._numbers += 1
        self._next_at = None
        self._round = _Round(self._numbers, now)
        return self._ask(self._round, dict.fromkeys(self.stalled, ()))

    # ------------------------------------------------------------------ a round

    def _ask(self, current: _Round, questions: Mapping[bytes, Iterable[bytes]]) -> list[Ask | Break]:
        out: list[Ask | Break] = []
        for process, tasks in questions.items():
            current.asked.add(process)
            current.asked.update(tasks)
            current.open[process] = current.open.get(process, 0) + 1
            out.append(Ask(process, current.number, tuple(tasks)))
        return out

    def _proceed(self, current: _Round, now: float) -> list[Ask | Break]:
        """All have answered: ask on, or judge."""
        wanted = current.wanted()
        if wanted and len(current.asked) + len(wanted) <= TASKS_MAX:
            questions: dict[bytes, list[bytes]] = {}
            for task in wanted:
                questions.setdefault(task[:PROCESS_BYTES], []).append(task)
            return self._ask(current, questions)
        if not current.everyone:
            builder = Builder(current.reports, self._around.world)
            graph = builder.build()
            idle_holders = any(
                child == NOBODY for clauses in graph.values() for clause in clauses for child, _ in clause.of
            )
            everyone = self._around.everyone() if idle_holders and not stuck(graph) else frozenset()
            if everyone:
                current.everyone = everyone
                silent = everyone - set(current.reports)
                if silent:
                    return self._ask(current, dict.fromkeys(silent, ()))
        return self._judge(current, now)

    def _judge(self, current: _Round, now: float) -> list[Ask | Break]:
        self._round = None
        self._ended_at = now
        builder = Builder(current.reports, self._around.world, current.everyone)
        graph = builder.build()
        never = stuck(graph)
        before, self._suspects = self._suspects, {}
        out: list[Ask | Break] = []
        broken: set[Vertex] = set()
        for vertex in sorted((each for each in never if each[0] == "wait"), key=str):
            found = knot(graph, never, vertex)
            around = cycle(found, vertex)
            if vertex not in around or not broken.isdisjoint(found):
                continue  # this wait depends on a cycle, or the cycle is handled already
            if before.get(vertex) != found:
                self._suspects[vertex] = found
                continue
            around = _from_last(builder, around)
            broken.update(found)
            _, process, serial = around[0]
            out.append(Break(process, serial, links(builder, around, self._around.who)))  # type: ignore[arg-type]
        if self._suspects or out:
            self._pause_s = FIRST_PAUSE_S
            self._set_next(now + CONFIRM_S)
        else:
            self._set_next(now + self._pause_s)
            self._pause_s = min(LAST_PAUSE_S, 2 * self._pause_s)
        return out

    def _set_next(self, at: float) -> None:
        # A stall that was reported during the round has already set an earlier time, or needs none.
        self._next_at = (
            at if self._next_at is None else min(at, max(self._next_at, self._ended_at + CONFIRM_S))
        )


def _from_last(builder: Builder, around: list[Vertex]) -> list[Vertex]:
    """The cycle, beginning with the wait that closed it: one for what cannot begin, the last of those.

    The others wait for what runs already: they began the chain, and its end unwinds to them. Clocks alone do not tell,
    for a call is sent, and may run and wait, before its caller has come to its get.
    """
    waits = [number for number, each in enumerate(around) if each[0] == "wait"]
    closing = [number for number in waits if around[(number + 2) % len(around)][0] != "wait"]
    last = max(
        closing or waits, key=lambda number: (builder.waits[around[number]].since_s, str(around[number]))
    )
    return [*around[last:], *around[:last]]
