"""Rows about tasks that stand in a debugger, and about breakpoints that were set from outside.

::

    worker  ──Paused(Pause)──► node ──PauseCounts(…)──────────► every process: no bound on time ends meanwhile
    worker  ──Resumed(id)────►      ──PauseNotice(text)───────► the drivers, once for each pause
    command ──PausedTasks────►      ──► [Pause]
    command ──AddTrigger─────►      ──SetTriggers((Trigger, …))──► every worker, and each that starts later

Values only; any process.
"""

from __future__ import annotations

from sundog.plain import NamedTuple


class Pause(NamedTuple):
    """A task or call that stands in a debugger."""

    id: str  # names its socket in the session's folder `debug`
    task_id: str
    name: str
    attempt: int
    path: str
    line: int
    function: str
    why: str  # breakpoint() | ValueError: … | a breakpoint from outside
    since_s: float
    pid: int
    worker_id: str
    attached: int = 0  # the pid of the client at its prompt; 0 while there is none
    port: int = 0  # where debugpy listens; 0 if pdb waits in the socket
    number: int = 0  # what the node calls it: short to type

    @property
    def place(self) -> str:
        """Where it stands, as editors and terminals understand it."""
        return f"{self.path}:{self.line}"


class Trigger(NamedTuple):
    """A breakpoint that a command has set in a running session."""

    number: int
    path: str = ""  # a file, or the end of its path; empty: any
    line: int = 0  # 0: no line, only exceptions
    when: str = ""  # an expression over the names of the frame; empty: always
    exception: str = ""  # the name of an exception class; empty: none
    attempt: int = 0  # only in this attempt, counted from 1; 0: in any

    def text(self) -> str:
        """In one line, for lists."""
        place = f"{self.path}:{self.line}" if self.line else self.path or "anywhere"
        parts = [place]
        if self.when:
            parts.append(f"when {self.when}")
        if self.exception:
            parts.append(f"on {self.exception}")
        if self.attempt:
            parts.append(f"in attempt {self.attempt}")
        return " ".join(parts)
