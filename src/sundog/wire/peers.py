"""Messages from process to process, about objects, references and tasks that one owns and the other uses.

Owns the rows. A channel is opened on first use, through the node (`OpenPeer`, `PeerOpened`). The rows of reference
counting are those of `state/references.py`, which makes and reads them as tuples. The tables are in
`owner/messages.py` and `worker/messages.py`. Pure.
"""

from __future__ import annotations

from sundog.wire.row import Row

# By which process an object was freed: id of the process in hexadecimal, its pid, the line that called free().
FreedBy = tuple[str, int, str]


class ToPeer(Row):
    """From one process to another."""


# ---------------------------------------------------------------------- values
class AskValue(ToPeer):
    """From a borrower to the owner of an object: its value, when it is ready (`tell_value`).

    `tell_pending`: if it is not ready, say so now. A worker lends its CPU meanwhile.
    """

    oid: bytes
    tell_pending: bool


class ValuePending(ToPeer):
    """First answer to an `ask_value` of a worker: the object is not ready, so the worker may lend its CPU."""

    oid: bytes


class TellValue(ToPeer):
    """Answer to `ask_value` and `copy_gone`: an object's value."""

    oid: bytes
    flag: int
    meta: bytes
    location: object
    inner: list[bytes] | None


class CopyGone(ToPeer):
    """A borrower could not open an object's segment: its owner answers with the next copy, or why there is none."""

    oid: bytes
    segment: str


class FreeObjects(ToPeer):
    """To the owner of objects, from a borrower that calls `sundog.internal.free`."""

    oids: list[bytes]
    by: FreedBy


class ObjectsFreed(ToPeer):
    """To every process that has a channel to their owner: the program freed these objects."""

    oids: list[bytes]
    by: FreedBy


# ---------------------------------------------------------------------- reference counts
class Borrow(ToPeer):
    """To the owner: this process holds a ref to your object; count it."""

    oid: bytes


class Borrowed(ToPeer):
    """Answer to `borrow`: counted; or, if not `known`, the object is gone."""

    oid: bytes
    known: bool


class Unborrow(ToPeer):
    """To the owner: the last hold here is gone; subtract this number from the count of this process."""

    oid: bytes
    times: int


class Unhold(ToPeer):
    """To the giver of a ref: the owner counts this process now, so the giver's hold for it may end."""

    oid: bytes


# ---------------------------------------------------------------------- tasks
class CancelTask(ToPeer):
    """To the worker that runs a task. A `number` other than 0 is answered by `cancel_told`."""

    task_id: bytes
    recursive: bool
    number: int


class CancelTold(ToPeer):
    """Answer to a recursive cancel: the workers of the task's children have been told, too."""

    number: int


class CancelOwned(ToPeer):
    """To the owner of a task, from a process that only has a ref to its result."""

    task_id: bytes
    force: bool
    recursive: bool


class Consumed(ToPeer):
    """To the worker that runs a generator: this many items were taken."""

    task_id: bytes
    items: int


class AskUnwanted(ToPeer):
    """To the owner of a task with several results, before they are stored: of which of them no ref is left."""

    task_id: bytes


class Unwanted(ToPeer):
    """Answer to `ask_unwanted`, and again for each later one: no ref to these results is left, so they need no
    place."""

    task_id: bytes
    indexes: list[int]


class Expire(ToPeer):
    """To the worker that was sent a task: if it is not begun, never begin it (`queue_timeout_s`)."""

    task_id: bytes
    name: str
    queue_timeout_s: float
    attempt: int
