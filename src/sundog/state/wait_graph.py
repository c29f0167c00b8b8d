"""Which task waits for which, and whether the wait can ever end: the graph behind ``DeadlockError``.

    driver ──get──► task ──runs in──► worker ──get──► task ──needs──► GPU ──held by──► worker ──get──► …

Owns: the graph made of reports, its reduction, and the cycle that is left. A vertex continues once each of its
*clauses* is met: enough of the vertices named there, by weight, continue. Whatever is not in the graph continues by
itself. Taking away, again and again, what can continue leaves exactly what never will: the test is sound for any mix of
"all of these", "two of these", and amounts of resources. What is unknown, unanswered or merely odd has no vertex, so
doubt always ends in "it continues".
Refuses: asking (``inquiry.py`` does), and the words for people (``deadlock_text.py``).
Runs in the node program, on its only thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping

from sundog.ids import TASK_BYTES
from sundog.plain import NamedTuple
from sundog.state.wait_facts import (
    ARGUMENTS,
    BEHIND,
    CALL,
    LEASE,
    MAIN,
    SENT,
    Holder,
    Report,
    Shortage,
    TaskFact,
    Wait,
)

Vertex = tuple[Hashable, ...]
"""("wait", process, serial) · ("task", id) · ("slot", process, name) · ("lease", owner, key) ·
("place", owner, key, number) · ("holder", kind, id) · ("nobody",)"""

NOBODY: Vertex = ("nobody",)
"""Stands for all activity of the session: it goes on unless every thread of every process is known to wait."""


class Clause(NamedTuple):
    """Met once vertices of a weight of ``needed`` continue."""

    needed: int
    of: tuple[tuple[Vertex, int], ...]


Graph = dict[Vertex, tuple[Clause, ...]]


class World(NamedTuple):
    """What the node itself knows, as questions."""

    shortage: Callable[[bytes, Hashable], Shortage | None]
    actor_place: Callable[[bytes], tuple[str, bytes]]
    """("worker", id), ("lease", b"") while it asks for one, or ("", b"")."""


def stuck(graph: Graph) -> set[Vertex]:
    """The vertices that never continue, whatever the others do."""
    waiting: dict[Vertex, list[Vertex]] = defaultdict(list)
    left: dict[Vertex, list[int]] = {}
    parts: dict[tuple[Vertex, Vertex], list[tuple[int, int]]] = defaultdict(list)
    going: list[Vertex] = []
    for vertex, clauses in graph.items():
        left[vertex] = [clause.needed for clause in clauses]
        for number, clause in enumerate(clauses):
            for child, weight in clause.of:
                if child in graph:
                    waiting[child].append(vertex)
                    parts[vertex, child].append((number, weight))
                else:
                    left[vertex][number] -= weight
        if all(each <= 0 for each in left[vertex]):
            going.append(vertex)
    gone = set(going)
    while going:
        child = going.pop()
        for vertex in waiting.pop(child, ()):
            if vertex in gone:
                continue
            for number, weight in parts.pop((vertex, child), ()):
                left[vertex][number] -= weight
            if all(each <= 0 for each in left[vertex]):
                gone.add(vertex)
                going.append(vertex)
    return set(graph) - gone


def reasons(graph: Graph, never: set[Vertex], vertex: Vertex) -> tuple[Vertex, ...]:
    """What keeps a stuck vertex: the stuck children of its first clause that cannot be met."""
    for clause in graph[vertex]:
        if sum(weight for child, weight in clause.of if child not in never) < clause.needed:
            return tuple(dict.fromkeys(child for child, _ in clause.of if child in never))
    return ()


def knot(graph: Graph, never: set[Vertex], start: Vertex) -> dict[Vertex, tuple[Vertex, ...]]:
    """Everything that a stuck vertex's fate rests on, with its reasons: what must hold twice to be believed."""
    found: dict[Vertex, tuple[Vertex, ...]] = {}
    todo = [start]
    while todo:
        vertex = todo.pop()
        if vertex not in found:
            found[vertex] = reasons(graph, never, vertex)
            todo.extend(found[vertex])
    return found


def cycle(found: Mapping[Vertex, tuple[Vertex, ...]], start: Vertex) -> list[Vertex]:
    """A cycle that ``start`` leads to, following the first reason of each."""
    path: list[Vertex] = []
    seen: dict[Vertex, int] = {}
    vertex = start
    while vertex not in seen:
        seen[vertex] = len(path)
        path.append(vertex)
        following = found.get(vertex, ())
        if not following:
            return []
        vertex = following[0]
    return path[seen[vertex] :]


class Builder:
    """Makes the graph of one round of reports."""

    def __init__(self, reports: Mapping[bytes, Report], world: World, everyone: Iterable[bytes] = ()) -> None:
        self.reports = reports
        self.world = world
        self.everyone = frozenset(everyone)  # all processes, if all of them were asked
        self.graph: Graph = {}
        self.facts: dict[bytes, TaskFact] = {}
        self.owners: dict[bytes, bytes] = {}
        self.running: dict[bytes, bytes] = {}  # task -> process
        self.waits: dict[Vertex, Wait] = {}
        self.shortages: dict[Vertex, Shortage] = {}
        for process, report in reports.items():
            for slot in report.slots:
                self.running.update(dict.fromkeys(slot.running, process))
            for task, fact in report.tasks:
                self.facts[task], self.owners[task] = fact, process

    def build(self) -> Graph:
        """The whole graph."""
        for process, report in self.reports.items():
            self._process(process, report)
        for task, fact in self.facts.items():
            if task not in self.running:
                self._task(task, fact)
        if self.everyone:
            self._nobody()
        return self.graph

    # ------------------------------------------------------------------ what runs

    def _process(self, process: bytes, report: Report) -> None:
        waits_of: dict[bytes, Vertex] = {}
        for wait in report.waits:
            vertex: Vertex = ("wait", process, wait.serial)
            self.waits[vertex] = wait
            self.graph[vertex] = (Clause(wait.need, tuple((_task_of(each), 1) for each in wait.targets)),)
            if wait.runs and wait.holds_slot:
                waits_of[wait.runs] = vertex
        for slot in report.slots:
            for task in slot.running:
                if task in waits_of:
                    self.graph["task", task] = (Clause(1, ((waits_of[task], 1),)),)
            if len(slot.running) >= slot.limit:
                anyone = tuple((("task", task), 1) for task in slot.running)
                self.graph["slot", process, slot.name] = (Clause(1, anyone),)

    # ------------------------------------------------------------------ what does not run yet

    def _task(self, task: bytes, fact: TaskFact) -> None:
        owner = self.owners[task]
        child: Vertex | None = None
        if fact.where == ARGUMENTS:
            needs = tuple((_task_of(each), 1) for each in fact.needs)
            self.graph["task", task] = (Clause(len(needs), needs),)
        elif fact.where == BEHIND:
            child = ("task", fact.ahead)
        elif fact.where == LEASE or (fact.where == SENT and self._slot_for(fact.worker, task) in self.graph):
            # A task that was sent to a worker which then blocked goes to another worker as soon as there is
            # one.
            child = self._lease(owner, fact.key)
        elif fact.where == CALL:
            kind, worker = self.world.actor_place(fact.actor)
            if kind == "lease":
                child = self._lease(fact.actor, fact.actor)
            elif kind == "worker":
                child = self._slot_for(worker, task)
        if child is not None:
            self.graph["task", task] = (Clause(1, ((child, 1),)),)

    def _slot_for(self, worker: bytes, task: bytes) -> Vertex:
        """The slot that a task sent to a worker waits for there; one that is not full, or unknown, has no vertex."""
        report = self.reports.get(worker)
        if report is None:
            return "slot", worker, ""
        queued = dict(report.queued)
        if task not in queued and not report.exclusive:
            return "slot", worker, ""  # the task has ended, or is on its way
        return "slot", worker, queued.get(task, MAIN)

    # ------------------------------------------------------------------ resources

    def _lease(self, owner: bytes, key: Hashable) -> Vertex | None:
        vertex: Vertex = ("lease", owner, key)
        if vertex in self.shortages:
            return vertex
        shortage = self.world.shortage(owner, key)
        if shortage is None:
            return None
        self.shortages[vertex] = shortage
        places = []
        for number, lacks in enumerate(shortage.places):
            place: Vertex = ("place", owner, key, number)
            places.append((place, 1))
            self.graph[place] = tuple(
                Clause(lack.short, tuple((self._holder(each), each.units) for each in lack.holders))
                for lack in lacks
            )
        self.graph[vertex] = (Clause(1, tuple(places)),)
        return vertex

    def _holder(self, holder: Holder) -> Vertex:
        vertex: Vertex = ("holder", holder.kind, holder.key)
        if vertex in self.graph:
            return vertex
        report = self.reports.get(holder.key) if holder.kind != "group" else None
        busy = [task for slot in report.slots for task in slot.running] if report is not None else []
        if busy:
            # An actor holds its resources beyond its calls, but it cannot end while calls run.
            self.graph[vertex] = (Clause(1, tuple((("task", task), 1) for task in busy)),)
        elif holder.kind == "group" or (holder.kind == "actor" and holder.key):
            # A placement group returns nothing by itself: a program has to remove it.
            self.graph[vertex] = (Clause(1, ((NOBODY, 1),)),)
        return vertex

    def _nobody(self) -> None:
        """If every thread of every process waits, then no thread is there that could remove an idle holder."""
        if self.everyone - set(self.reports):
            return
        children: list[tuple[Vertex, int]] = []
        for process, report in self.reports.items():
            busy = {task for slot in report.slots for task in slot.running}
            seen = {wait.runs for wait in report.waits if wait.holds_slot}
            if report.others or busy - seen or (not report.slots and not report.waits):
                return  # something runs there that no known wait depends on
            children += [(("wait", process, wait.serial), 1) for wait in report.waits]
        if children:
            self.graph[NOBODY] = (Clause(1, tuple(children)),)


def _task_of(target: bytes) -> Vertex:
    return "task", target[:TASK_BYTES]
