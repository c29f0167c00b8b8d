"""Errors that nobody reads: told when the last ref to them is gone.

Owns which results of ours are errors of the user's code that no `get`, `wait`, task or other process has looked at,
and the sentence that is shown for one that is dropped so. An error that is still referred to is not told: its reader
may yet come. Switched off by the setting `ignore_unhandled_errors`. Runs in every owner, under its lock; the error is
unpickled and shown on the thread for deliveries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog import notices
from sundog.exceptions import RayTaskError
from sundog.ids import result_id
from sundog.serialize.pack import unpack
from sundog.wire.lanes import ERROR

if TYPE_CHECKING:
    from sundog.owner.rows import Task, Value


class UnreadErrors:
    """The errors of one owner's tasks that the program has not read."""

    def __init__(self, enabled: bool, deliver: Callable[[Callable[[bytes], None], bytes], None]) -> None:
        self._enabled = enabled
        self._deliver = deliver
        self.oids: set[bytes] = set()  # empty most of the time, and so checked first

    def raised(self, task: Task) -> None:
        """A task has raised, and is not tried again: its results are about to be its error."""
        returns = task.fn.returns
        if self._enabled and task.rebuilding is None and returns != "streaming":
            count = returns if isinstance(returns, int) else 1
            self.oids.update(result_id(task.id, index) for index in range(1, count + 1))

    def freed(self, oid: bytes, value: Value) -> None:
        """The last ref to an object died: if the object is an unread error, report the error."""
        if oid in self.oids:
            self.oids.discard(oid)
            if value[0] == ERROR:
                self._deliver(_tell, value[1])


def _tell(meta: bytes) -> None:
    error = unpack(meta, None)
    if isinstance(error, RayTaskError):
        notices.error(
            "Unhandled error: a task or call raised this, and its ref was dropped without a get "
            f"(RAY_IGNORE_UNHANDLED_ERRORS=1 hides such messages).\n{error}"
        )
