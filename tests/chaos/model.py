"""The model: what each object of a random program must be, and what may have happened to it.

Plain rows without any I/O, in the driver. A row knows the value its object has if it has one, what it was made
from, and how much misfortune it was allowed (retries, restarts); `truth` holds errors against that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.bodies import Fate


@dataclass(eq=False)
class Actor:
    """An actor of a program, served by one process at a time."""

    key: str
    handle: Any
    kind: str  # ledger | async | threaded | grouped
    max_restarts: int
    max_task_retries: int
    ended: bool = False  # the program itself killed it for good
    kicked: int = 0  # how often the program killed it and let it restart
    numbers: int = 0
    name: str = ""
    detached: bool = False
    kept: dict[str, Entry] = field(default_factory=dict)


@dataclass(eq=False)
class Entry:
    """One object. ``value`` is what a read must give, ``None`` for what is compared elsewhere."""

    kind: str  # put | task | item | call
    mark: str  # the name of its notes; of a put: of its content
    value: Any = None
    ref: Any = None
    parents: list[Entry] = field(default_factory=list)
    retries: int = 0
    retry_exceptions: bool = False
    fate: Fate = field(default_factory=Fate)
    actor: Actor | None = None
    owner_pid: int = 0  # 0: the driver
    cancelled: bool = False
    argument: Any = None  # one by value: if it is large, an object that only its task refers to
    holds: Any = None  # what its bytes are if it has any, where no value is demanded
    timeout_s: float = 0.0
    late: bool = False  # it runs for ever, and ends by its timeout
    queue_timeout_s: float = 0.0
    unbegun_after: int = -1  # it was said not to have been begun, after so many runs that were ended
    outgrows: bool = False  # it takes more memory than it asked for, and may have
    group_removed: bool = False
    object_id: bytes = b""
    since: int = 0  # the number of the first act after it was submitted
    number: int = 0  # of a call of a ledger: its place among the caller's

    @property
    def fragile(self) -> bool:
        """Whether its owner is a worker, with which it ends."""
        return self.owner_pid != 0

    def lineage(self) -> Iterator[Entry]:
        """This one and all it was made from, each once."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            entry = waiting.pop()
            if id(entry) not in seen:
                seen.add(id(entry))
                yield entry
                waiting.extend(entry.parents)

    def attempts_left_after(self, runs: int) -> bool:
        """Whether another attempt was allowed after so many."""
        return self.retries < 0 or runs <= self.retries
