"""Looks at processes: a question to each, and their answers as they come, for commands that show what happens now.

Owns the questions that are open. A process answers by a thread of its own while its main thread is busy; one that
cannot (stopped, or in C code that keeps the interpreter) is named as silent when the time is over. Refuses to read what
the answers say. Runs on the node's only thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sundog.node.rows import Process, registration_of
from sundog.plain import plain
from sundog.wire.control import Look, Looked
from sundog.wire.looks import PULSE, Who
from sundog.wire.requests import LookAt

if TYPE_CHECKING:
    from sundog.node.interfaces import WithActors
    from sundog.node.listings import Listings

    class HasListings(Protocol):
        """Has the rows of the state API."""

        @property
        def listings(self) -> Listings:
            """The rows."""

    class LooksNode(WithActors, Protocol):
        """What a look asks of the node."""

        @property
        def requests(self) -> HasListings:
            """Has the rows of the state API."""


@plain()
class _Open:
    """A question, the processes that have not answered, and what the others said."""

    asked: dict[bytes, Who]
    told: list[tuple[Who, object]]
    finish: Callable[[], None]


class Looks:
    """The questions that wait for answers."""

    def __init__(self, node: LooksNode) -> None:
        self.node = node
        self._tokens = itertools.count(1)
        self._open: dict[int, _Open] = {}

    def ask(
        self, request: LookAt, answer: Callable[[tuple[list[tuple[Who, object]], list[Who]]], None]
    ) -> None:
        """Ask every process, or those with these ids; `answer` gets what they told, and which did not answer."""
        only = request.only
        token = next(self._tokens)
        states = self.node.requests.listings.states()
        asked = {
            process.process_id: self._who(process, states.get(process.process_id, process.state))
            for process in self.node.processes.values()
            if process.pid
            and (not only or process.process_id.hex() in only)
            # A starting process runs nothing, and every watching command would wait for it.
            and not (request.question == PULSE and process.state == "starting")
        }

        def finish() -> None:
            found = self._open.pop(token, None)
            if found is not None:
                answer((found.told, list(found.asked.values())))

        self._open[token] = _Open(asked, [], finish)
        for process_id in list(asked):
            self.node.processes[process_id].line.send(Look(token, request.question, request.arguments))
        if asked:
            self.node.loop.after(request.patience_s, finish)
        else:
            finish()

    def looked(self, process: Process, message: Looked) -> None:
        """One process answers."""
        found = self._open.get(message.token)
        who = found.asked.pop(process.process_id, None) if found is not None else None
        if found is not None and who is not None:
            found.told.append((who, message.row))
            if not found.asked:
                found.finish()

    def process_died(self, process_id: bytes) -> None:
        """The process will not answer any more."""
        for found in list(self._open.values()):
            if found.asked.pop(process_id, None) is not None and not found.asked:
                found.finish()

    def _who(self, process: Process, state: str) -> Who:
        node = self.node
        row = node.keeper.actors.on_worker(process.process_id)
        job = node.jobs.get(process.job_id) if process.kind == "driver" else None
        return Who(
            process.pid,
            process.process_id.hex(),
            process.kind,
            state,
            process.job_id.hex(),
            process.started_at,
            row.actor_id.hex() if row is not None else "",
            registration_of(row)["class_name"] if row is not None else "",
            row.name or "" if row is not None else "",
            job.entrypoint if job is not None else "",
        )
