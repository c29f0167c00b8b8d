"""Which task gets resources next, where several processes submit tasks that ask for the same.

Owns the order, as the node's scheduler has it (`state/granting.py`, `state/starvation.py`). Processes take turns: who
got something goes to the end. A process keeps what its task leaves for its own next task, unless another process that
has nothing yet has waited for long. Within a process the order is that of submission. Pure.
"""

from __future__ import annotations

from collections import deque

_PATIENCE_S = 0.2  # as in `state/starvation.py`


class TaskTurns:
    """The tasks that wait for resources of one kind."""

    def __init__(self) -> None:
        # By process, in the order of their turns: since when it has waited, and its tasks.
        self._queues: dict[bytes, tuple[float, deque[int]]] = {}
        self._held: dict[bytes, int] = {}  # how many tasks of each process have what they asked for

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, owner: bytes, key: int, now: float) -> None:
        """A task of a process asks."""
        if owner not in self._queues:
            self._queues[owner] = (now, deque())
        self._queues[owner][1].append(key)

    def take(self, now: float, left_by: bytes) -> int:
        """The task that is next.

        Args:
            now: the time.
            left_by: the process whose task has ended and left the resources; b"" if they are lent or were free.
        """
        owner = self._next(now, left_by)
        _, queue = self._queues.pop(owner)
        key = queue.popleft()
        if queue:
            self._queues[owner] = (now, queue)
        self._held[owner] = self._held.get(owner, 0) + 1
        return key

    def returned(self, owner: bytes) -> None:
        """A task of a process has ended, or needs nothing any more."""
        self._held[owner] = self._held.get(owner, 0) - 1

    def _next(self, now: float, left_by: bytes) -> bytes:
        if left_by not in self._queues:
            return next(iter(self._queues))
        for owner, (since, _) in self._queues.items():
            if now - since < _PATIENCE_S:
                break  # those behind it have waited less
            if owner != left_by and self._held.get(owner, 0) <= 0:
                return owner
        return left_by
