"""Results of a running task that nobody holds: they are not stored (`owner/unwanted.py` draws the messages).

Owns what owners have told of the tasks that run here. Any thread that runs tasks asks; the reader thread notes the
answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.wire.peers import AskUnwanted, Unwanted

if TYPE_CHECKING:
    from sundog.owner.core import Owner
    from sundog.serialize.pack import Buffers

# Arbitrary: a question costs two messages, as much as writing some hundred kilobytes.
ASK_FROM_BYTES = 1 << 20


class UnwantedHere:
    """The results of this worker's tasks that will not be read."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._told: dict[bytes, set[int]] = {}  # tasks that have asked

    def is_unwanted(self, task_id: bytes, owner_id: bytes, index: int, buffers: Buffers) -> bool:
        """Whether a result need not be stored, as far as is known now. Asks the task's owner the first time."""
        told = self._told.get(task_id)
        if told is not None:
            return index in told
        if sum(each.nbytes for each in buffers) < ASK_FROM_BYTES:
            return False
        self._told[task_id] = set()
        with self.owner.lock:
            self.owner.peers.send(owner_id, AskUnwanted(task_id))
        if self.owner.reactor.dormant:
            self.owner.reactor.rouse()  # somebody has to read the answer while the task runs
        return False

    def told(self, _process: bytes, message: Unwanted) -> None:
        """An owner says which results it will discard."""
        known = self._told.get(message.task_id)
        if known is not None:  # otherwise the task has ended
            known.update(message.indexes)

    def forget(self, task_id: bytes) -> None:
        """A task has ended."""
        self._told.pop(task_id, None)
