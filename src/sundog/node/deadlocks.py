"""Deadlocks, on the node's side: questions to processes and their answers, carried for `state.inquiry.Search`.

Owns the timer between its rounds, and what the node knows that the search asks for: the holders of a resource, where an
actor is, which processes there are. Runs on the node's only thread; while no process reports a get that has been
blocked for long, it does nothing at all, and has not even loaded the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.node.rows import Process, registration_of
from sundog.wire.control import Deadlock, Stalled, TellWaits, WaitsTold

if TYPE_CHECKING:
    from sundog.node.interfaces import WithActors
    from sundog.state.deadlock_text import WaitingParty
    from sundog.state.inquiry import Ask, Break, Search


class Deadlocks:
    """The search for deadlocks in one node."""

    def __init__(self, node: WithActors) -> None:
        self.node = node
        self._search: Search | None = None
        self._due_at = float("inf")

    def _begin(self) -> Search:
        from sundog.state.inquiry import Search, Surroundings
        from sundog.state.wait_graph import World

        self._search = Search(
            Surroundings(World(self.node.leases.shortage, self._actor_place), self._everyone, self._who)
        )
        return self._search

    # ------------------------------------------------------------------ events
    def stalled(self, process: Process, message: Stalled) -> None:
        """A process has this many gets that have been blocked for long."""
        search = self._search or self._begin()
        search.on_stalled(process.process_id, message.waits, self.node.now())
        self._plan(search)

    def told(self, process: Process, message: WaitsTold) -> None:
        """A process answers."""
        if self._search is not None:
            _, number, report = message
            told = self._search.on_told(process.process_id, number, report, self.node.now())
            self._do(self._search, told)

    def process_died(self, process: bytes) -> None:
        """A process is gone."""
        if self._search is not None:
            self._search.on_gone(process)
            self._plan(self._search)

    # ------------------------------------------------------------------ time
    def _plan(self, search: Search) -> None:
        due = search.next_in_s(self.node.now())
        if due is not None and self.node.now() + due < self._due_at:
            self._due_at = self.node.now() + due
            self.node.loop.after(due, lambda: self._tick(search))

    def _tick(self, search: Search) -> None:
        self._due_at = float("inf")
        self._do(search, search.tick(self.node.now()))

    # ------------------------------------------------------------------ instructions
    def _do(self, search: Search, instructions: list[Ask | Break]) -> None:
        from sundog.state.inquiry import Ask
        from sundog.state.wait_facts import Report

        for step in instructions:
            process = self.node.processes.get(step.process)
            if isinstance(step, Ask):
                if process is None:
                    # The process is gone, so reads of its objects fail by themselves: it blocks no other
                    # process.
                    nothing = Report(exclusive=False)
                    self._do(search, search.on_told(step.process, step.number, nothing, self.node.now()))
                else:
                    process.line.send(TellWaits(step.number, step.tasks))
            elif process is not None:
                names = ", ".join(link["name"] for link in step.links)
                self.node.log(f"deadlock: {names}; the get of the first, pid {process.pid}, raises")
                process.line.send(Deadlock(step.serial, step.links))
        self._plan(search)

    # ------------------------------------------------------------------ what the node knows
    def _actor_place(self, actor_id: bytes) -> tuple[str, bytes]:
        row = self.node.keeper.actors.get(actor_id)
        if row is None or row.state == "DEAD":
            return "", b""
        if row.worker is not None:
            return "worker", row.worker
        return ("lease", b"") if row.asked else ("", b"")

    def _everyone(self) -> frozenset[bytes]:
        """All processes; none if a process may yet come that helps: a worker that starts, a program that joins."""
        if self.node.persistent or self.node.leases.starting():
            return frozenset()
        return frozenset(self.node.processes)

    def _who(self, process_id: bytes) -> WaitingParty:
        from sundog.state.deadlock_text import WaitingParty

        process = self.node.processes.get(process_id)
        row = self.node.keeper.actors.on_worker(process_id)
        class_name = registration_of(row)["class_name"] if row is not None else ""
        return WaitingParty(process.pid if process is not None else 0, class_name)
