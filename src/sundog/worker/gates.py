"""Generators that wait for their consumers: how many items each may have unread, and all of an actor together.

Owns the count of every stream with a bound. A stream that has ended counts until its items are read, if its actor has
a bound; the items of a dead owner count no more. Any thread of a worker; generators without a bound never come here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Gate:
    """One stream: what was sent, and what its consumer has taken."""

    __slots__ = ("abandoned", "consumed", "ended", "limit", "owner", "sent", "wake")

    def __init__(self, owner: bytes, limit: int, wake: Callable[[], None]) -> None:
        self.owner = owner
        self.limit = limit
        self.wake = wake
        self.sent = self.consumed = 0
        self.ended = False
        self.abandoned = False  # the owner is gone, so no process needs another item

    @property
    def unread(self) -> int:
        return max(0, self.sent - self.consumed)


class Gates:
    """The bounded streams of one worker."""

    def __init__(self) -> None:
        self.actor_limit = 0  # limit of unread items of all streams of the actor together; 0: no limit
        self._gates: dict[bytes, Gate] = {}
        self._lock = threading.Lock()

    def open(self, task_id: bytes, owner: bytes, limit: int, wake: Callable[[], None]) -> Gate | None:
        """A stream begins; None if it has no limit."""
        if limit <= 0 and not self.actor_limit:
            return None
        with self._lock:
            gate = self._gates[task_id] = Gate(owner, limit, wake)
        return gate

    def admit(self, gate: Gate, count: int) -> bool:
        """Whether the stream may make so many more items now; they count as unread from here on."""
        with self._lock:
            if gate.limit > 0 and gate.unread >= gate.limit:
                return False
            if self.actor_limit and sum(each.unread for each in self._gates.values()) >= self.actor_limit:
                return False
            gate.sent += count
            return True

    def withdraw(self, gate: Gate, count: int) -> None:
        """The stream made no items: it has ended, or raised."""
        with self._lock:
            gate.sent -= count
        if self.actor_limit:
            self._wake_all()

    def close(self, task_id: bytes) -> None:
        """A stream has ended, one way or another."""
        with self._lock:
            gate = self._gates.get(task_id)
            if gate is not None:
                gate.ended = True
                self._forget_read(task_id, gate)

    def consumed(self, task_id: bytes, count: int) -> None:
        """The consumer has read so many items of a stream."""
        with self._lock:
            gate = self._gates.get(task_id)
            if gate is None:
                return
            gate.consumed = max(gate.consumed, count)
            self._forget_read(task_id, gate)
        self._wake_all() if self.actor_limit else gate.wake()

    def wake(self, task_id: bytes) -> None:
        """Have a waiting stream check whether it was cancelled."""
        gate = self._gates.get(task_id)
        if gate is not None:
            gate.wake()

    def owner_died(self, owner: bytes) -> None:
        """The owner of these streams died: no process will read their items."""
        with self._lock:
            for task_id, gate in list(self._gates.items()):
                if gate.owner == owner:
                    gate.abandoned = True
                    gate.consumed = gate.sent
                    self._forget_read(task_id, gate)
                    gate.wake()
        if self.actor_limit:
            self._wake_all()

    def _forget_read(self, task_id: bytes, gate: Gate) -> None:
        if gate.ended and not (self.actor_limit and gate.unread):
            self._gates.pop(task_id, None)

    def _wake_all(self) -> None:
        for gate in list(self._gates.values()):
            gate.wake()
