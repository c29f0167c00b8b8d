"""Puts together what two processes tell of a task: which process submitted it and when, and which ran it.

The process that runs a task on Ray knows eight bytes of its id; the process that submits it knows the id of the owner
as well. A run that comes before its submission waits here. Owns these tables, bounded in size. Pure: events in, events
out, in the layout of `events.EVENT`, their numbers left out. Runs in Home.
"""

from __future__ import annotations

from collections import deque

from sundog import events
from sundog.plain import field, plain

NOBODY = bytes(8)
_NO_TASK = bytes(16)
_RUNS = frozenset({events.TASK, events.CALL, events.CREATE})
_KEPT = 200_000  # ended tasks that are remembered, since a retry may come

# task, submitted, started, ended, name, kind, flags, attempt, processor seconds, bytes of its own
Fields = tuple[bytes, float, float, float, int, int, int, int, float, float]
Out = tuple[bytes, Fields]  # the process that reports the event, and the event without its number


@plain()
class Submission:
    """What is known of a task from the process that submitted it."""

    owner: bytes
    submit_s: float
    name: str
    ended: int = 0  # attempts with a record, one bit each


class Matches:
    """Submissions and runs of one job."""

    def __init__(self) -> None:
        self.known: dict[bytes, Submission] = {}
        self._waiting: dict[bytes, list[Out]] = {}
        self._done: deque[bytes] = deque()

    def submitted(self, unique: bytes, owner: bytes, submit_s: float, name: str) -> list[Out]:
        """A submission; returns the events that waited for it."""
        found = self.known[unique] = Submission(owner, submit_s, name)
        waited = self._waiting.pop(unique, None) if self._waiting else None
        if waited is None:
            return []
        return [(process, self._completed(found, unique, fields)) for process, fields in waited]

    def told(self, process: bytes, fields: Fields) -> Fields | None:
        """An event of a process, with its owner if that is known; None if it has to wait for that."""
        task: bytes = fields[0]
        if not task.startswith(NOBODY) or task == _NO_TASK:
            return fields
        unique = task[8:]
        found = self.known.get(unique)
        if found is None:
            self._waiting.setdefault(unique, []).append((process, fields))
            return None
        return self._completed(found, unique, fields)

    def _completed(self, found: Submission, unique: bytes, fields: Fields) -> Fields:
        _, submit_s, start_s, end_s, name, kind, flags, attempt, cpu_s, own_bytes = fields
        if kind in _RUNS:
            submit_s = found.submit_s
            # Clocks are compared to within a few milliseconds; no task starts before its submission.
            if start_s < submit_s:
                start_s = submit_s
                end_s = max(end_s, start_s)
            if not found.ended:
                self._note_done(unique)
            found.ended |= 1 << min(attempt, 62)
        return (found.owner + unique, submit_s, start_s, end_s, name, kind, flags, attempt, cpu_s, own_bytes)

    def _note_done(self, unique: bytes) -> None:
        self._done.append(unique)
        if len(self._done) > _KEPT:
            self.known.pop(self._done.popleft(), None)

    def id_of(self, task: bytes) -> bytes:
        """The whole id of a task, as far as it is known."""
        found = self.known.get(task[8:]) if task[:8] == NOBODY else None
        return found.owner + task[8:] if found is not None else task

    def unfinished(self) -> dict[bytes, Submission]:
        """Tasks of which no record of a run came."""
        return {unique: found for unique, found in self.known.items() if not found.ended}

    def give_up(self) -> list[Out]:
        """The events that still wait for the report of their submission: they are written without it."""
        left = [out for outs in self._waiting.values() for out in outs]
        self._waiting.clear()
        return [
            (process, (fields[0], fields[2] if fields[5] in _RUNS else fields[1], *fields[2:]))
            for process, fields in left
        ]


@plain()
class RecordSource:
    """A process of the job, as Home knows it."""

    process_id: bytes
    node: str
    pid: int
    role: str
    job: bytes
    after: int = 0  # of its ring
    names_at: int = 0
    written: int = 0  # events in the session's records
    lost: int = 0  # events that were overwritten, or lost with their node
    names: dict[int, tuple[str, str]] = field(default_factory=dict)
    header: bytes = b""  # as it was written last
