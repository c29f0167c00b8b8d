"""Deadlocks, on the node's side: questions to processes and their answers, carried for `state.inquiry.Search`.

Owns the timer between its rounds, and what the node knows that the search asks for: who holds a resource, where an
actor is, which processes there are. Runs on the node's only thread; while no process reports a get that has been
blocked for long, it does nothing at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sundog.node.rows import Process
from sundog.state.deadlock_text import Who
from sundog.state.inquiry import Ask, Break, Search, Surroundings
from sundog.state.wait_facts import Report
from sundog.state.waits import World

if TYPE_CHECKING:
    from sundog.node.program import Node


class Deadlocks:
    """The search for deadlocks in one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.search = Search(
            Surroundings(World(node.leases.shortage, self._actor_place), self._everyone, self._who)
        )
        self._due_at = float("inf")

    # ------------------------------------------------------------------ events
    def stalled(self, process: Process, count: int) -> None:
        """A process has so many gets that have been blocked for long."""
        self.search.on_stalled(process.process_id, count, self.node.now())
        self._plan()

    def told(self, process: Process, number: int, report: Report) -> None:
        """A process answers."""
        self._do(self.search.on_told(process.process_id, number, report, self.node.now()))

    def process_died(self, process: bytes) -> None:
        """A process is gone."""
        self.search.on_gone(process)
        self._plan()

    # ------------------------------------------------------------------ time
    def _plan(self) -> None:
        due = self.search.next_in_s(self.node.now())
        if due is not None and self.node.now() + due < self._due_at:
            self._due_at = self.node.now() + due
            self.node.loop.after(due, self._tick)

    def _tick(self) -> None:
        self._due_at = float("inf")
        self._do(self.search.tick(self.node.now()))

    # ------------------------------------------------------------------ instructions
    def _do(self, instructions: list[Ask | Break]) -> None:
        for step in instructions:
            process = self.node.processes.get(step.process)
            if isinstance(step, Ask):
                if process is None:
                    # Gone, so what it owned fails on its own: nothing it could tell would hold anybody up.
                    self._do(
                        self.search.on_told(
                            step.process, step.number, Report(exclusive=False), self.node.now()
                        )
                    )
                else:
                    process.line.send(("tell_waits", step.number, step.tasks))
            elif process is not None:
                names = ", ".join(link["name"] for link in step.links)
                self.node.log(f"deadlock: {names}; the get of the first, pid {process.pid}, raises")
                process.line.send(("deadlock", step.serial, step.links))
        self._plan()

    # ------------------------------------------------------------------ what the node knows
    def _actor_place(self, actor_id: bytes) -> tuple[str, bytes]:
        row = self.node.keeper.actors.get(actor_id)
        if row is None or row.state == "DEAD":
            return "", b""
        if row.worker is not None:
            return "worker", row.worker
        return ("lease", b"") if row.asked else ("", b"")

    def _everyone(self) -> frozenset[bytes]:
        """All processes; none if somebody may yet come: a worker that starts, a program that joins."""
        if self.node.persistent or self.node.leases.starting():
            return frozenset()
        return frozenset(self.node.processes)

    def _who(self, process_id: bytes) -> Who:
        process = self.node.processes.get(process_id)
        row = self.node.keeper.actors.on_worker(process_id)
        spec: Any = row.spec if row is not None else {}
        return Who(process.pid if process is not None else 0, spec.get("class_name", ""))
