"""Tasks that stand in a debugger, and breakpoints that were set from outside, as the node knows them.

Owns the rows of both. Every process hears how many tasks stand, so that no bound on time ends meanwhile; drivers hear
where. A worker that starts while breakpoints are set hears of them first. Runs on the node's only thread.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from sundog.printable import printable
from sundog.wire.control import PauseCounts, Paused, PauseNotice, Resumed, SetCaptures, SetTriggers
from sundog.wire.pauses import Pause, Trigger

if TYPE_CHECKING:
    from sundog.node.interfaces import NodeBasics
    from sundog.node.rows import Process


class SessionPauses:
    """The paused tasks and the triggers of one session."""

    def __init__(self, node: NodeBasics) -> None:
        self.node = node
        self.rows: dict[str, Pause] = {}
        self.triggers: dict[int, Trigger] = {}
        self.captures: set[str] = set()  # functions whose every run leaves a capsule
        self._next = 1
        self._numbers = itertools.count(1)

    # ------------------------------------------------------------------ pauses
    def paused(self, process: Process, message: Paused) -> None:
        """A task stands, or a user came to its prompt or left it."""
        pause = message.pause
        known = self.rows.get(pause.id)
        number = known.number if known is not None else next(self._numbers)
        pause = self.rows[pause.id] = pause._replace(number=number)
        self._tell_all()
        if known is None and not pause.attached:
            text = notice_of(pause)
            job = self.node.jobs.get(process.job_id)
            for each in [job] if job is not None else list(self.node.jobs.values()):
                driver = self.node.processes.get(each.driver)
                if driver is not None:
                    driver.line.send(PauseNotice(text))

    def resumed(self, _process: Process, message: Resumed) -> None:
        """A task continues."""
        if self.rows.pop(message.pause_id, None) is not None:
            self._tell_all()

    def process_died(self, process: Process) -> None:
        """A worker is gone, and its tasks with it."""
        worker = process.process_id.hex()
        gone = [each.id for each in self.rows.values() if each.worker_id == worker]
        if gone:
            from sundog.debugging import channel  # only sessions with a debugger load this

            for each in gone:
                del self.rows[each]
                channel.remove(self.node.session["path"], each)
            self._tell_all()

    def _tell_all(self) -> None:
        attached = sum(1 for each in self.rows.values() if each.attached)
        for process in self.node.processes.values():
            if process.pid:
                process.line.send(PauseCounts(len(self.rows), attached))

    def of_worker(self, worker_id: str) -> tuple[int, int]:
        """How many tasks of a worker stand, and at which port debugpy listens there (0: none)."""
        found = [each for each in self.rows.values() if each.worker_id == worker_id]
        return len(found), max((each.port for each in found), default=0)

    # ------------------------------------------------------------------ breakpoints from outside
    def add(self, trigger: Trigger) -> int:
        """Set a breakpoint in every worker; returns its number."""
        number, self._next = self._next, self._next + 1
        self.triggers[number] = trigger._replace(number=number)
        self._arm_all()
        return number

    def clear(self, numbers: list[int]) -> list[int]:
        """Remove breakpoints, all if none is named; returns those that were there."""
        gone = [each for each in numbers or list(self.triggers) if self.triggers.pop(each, None) is not None]
        if gone:
            self._arm_all()
        return gone

    def capture(self, names: list[str], *, wanted: bool) -> list[str]:
        """Have every run of these functions leave a capsule, or no longer; returns all that do."""
        self.captures = (
            self.captures.union(names) if wanted else self.captures.difference(names or self.captures)
        )
        self._arm_all()
        return sorted(self.captures)

    def _arm_all(self) -> None:
        for process in self.node.processes.values():
            if process.kind == "worker":
                self.arm(process)

    def arm(self, process: Process) -> None:
        """Tell one worker of the breakpoints."""
        process.line.send(SetTriggers(tuple(self.triggers.values())))
        process.line.send(SetCaptures(tuple(sorted(self.captures))))


def notice_of(pause: Pause) -> str:
    """What a driver says of a task that stands.

    >>> notice_of(Pause("1", "ab12", "f", 0, "/x/f.py", 3, "f", "breakpoint()", 0.0, 812, "", number=2))
    'f (task ab12, pid 812) is paused at /x/f.py:3 by breakpoint(). Attach with: sundog debug 2'
    """
    who = f"{printable(pause.name)} (task {pause.task_id}, pid {pause.pid})"
    what = f"{who} is paused at {printable(pause.place)} by {printable(pause.why)}"
    if pause.port:
        return f"{what}. The debugger is listening on 127.0.0.1:{pause.port}. See: sundog debug --vscode"
    return f"{what}. Attach with: sundog debug {pause.number}"
