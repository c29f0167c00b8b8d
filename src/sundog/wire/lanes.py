"""What travels on a lane: the socket pair between an owner and one worker it leased or calls.

::

    owner ──(fns, items, freed, setup)──► worker          one packet, one batch
    owner ◄──────[reply, reply, …]─────── worker          one packet, one flush

``fns``    None or a list of `FnWire`: functions this worker has not seen from this owner; a None among them: forget
           those that came before
``items``  a list of `Item`
``freed``  segments the worker made and may use again: [(name, size)]
``setup``  None or a dict that prepares the process for this lease (environment, GPU ids, placement group)

A value on the wire is ``(flag, meta, location, inner)``: the flag (`OK` or `ERROR`), the pickle stream,
where its buffers are in shared memory (or None), and the ids of the refs inside (or None).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sundog.store.segments import Location
    from sundog.wire.dicts import LeaseSetup

OK, ERROR = 0, 1

# (number, code hash, pickled function, name, num_returns, retry_exceptions (bool or pickled types), max_calls)
FnWire = tuple[int, bytes, bytes, str, int | str, object, int]

# (task id, function number or method name, arguments, submit time, extra)
#   arguments: None (no arguments), bytes (pickled positional tuple or (args, kwargs) list), or
#              ("obj", object id, meta, location): they are an object of their own in shared memory
#   extra:     None or a dict of EXTRA_* keys
Extra = dict[str, Any]
Item = tuple[bytes, Any, Any, float, Any]
EXTRA_VALUES = "v"  # values of top-level refs, by slot: (object id, wire value)
EXTRA_RETURNS = "n"  # num_returns, when it differs from the function's own
EXTRA_ATTEMPT = "a"  # attempt number, when not 0
EXTRA_NAME = "m"  # task name, when it differs from the function's own
EXTRA_GROUP = "g"  # concurrency group of an actor call
EXTRA_RETRY = "r"  # retry_exceptions of an actor call
EXTRA_BACKPRESSURE = "b"  # how many generator items may be unread
EXTRA_PER_YIELD = "y"  # how many objects a generator yields at a time, when not 1
EXTRA_HIDDEN = "h"  # enable_task_events=False: its record is not listed
EXTRA_INSPECT = "i"  # an Inspect: what the user wants to see of this task
EXTRA_TIMEOUT = "t"  # timeout_s, or 0.0 when only the time before the start is bounded
VALUES_ALONE = frozenset({EXTRA_VALUES})  # the keys of a task with refs and without options

# Replies: (task id, kind, payload, seconds)
R_ONE = 0  # payload: the pickle stream of the one small result
R_VALUES = 1  # payload: (wire values, refs still held)
# payload: (retryable, or None if it was cancelled before it ran, or CANCELLED if while it ran; wire value of the error;
# refs still held), and of a generator with num_returns=n or "dynamic" the wire values that it had made before
R_ERROR = 2
CANCELLED = "c"
R_ITEM = 3  # payload: (index, wire value): one item of a generator
R_END = 4  # payload: (item count, refs still held): a generator has ended
R_BACK = 5  # payload: [task ids] that were not begun and are handed back
R_BLOCKED = 6  # payload: whether the worker blocks in a get (no new work then)
R_DYNAMIC = 7  # payload: (wire values of the items, refs still held)
R_EXIT = 8  # the worker ends after this reply (max_calls): do not send it more
# task id: the id of the answering process, payload: its pid; the first message on every lane to an actor
R_WORKER = 9
R_STARTED = 10  # a task with a timeout_s began
R_STACK = 11  # payload: where a task was when its time was over; its reply follows if it can be interrupted
R_LOST = 12  # payload: (object id, segment, refs still held): an argument is lost, so the task was not begun

# (functions the worker has not seen, tasks, freed segments, what the lease needs): see above
Packet = tuple[list[FnWire | None] | None, Sequence[Item], Sequence[tuple[str, int]], "LeaseSetup | None"]
WireValue = tuple[int, bytes, "Location | None", list[bytes] | None]
Reply = tuple[bytes, int, object, float]
ReplyBatch = list[Reply]
