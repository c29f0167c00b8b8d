"""The owner's rows: tasks, functions, shapes of demand.

Owns the slots and nothing else; the parts of the owner that use them live beside this file. Touched
under the owner's lock, but for a task's submission, which only builds a new row and appends it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from sundog.printable import printable
from sundog.state.lease_spec import LeaseSpec

if TYPE_CHECKING:
    from sundog.owner.lanes import ActorLane, Lane, LeasedLane
    from sundog.wire.dicts import LeaseSetup
    from sundog.wire.lanes import Extra

# Task states
WAITING, QUEUED, SENT, DONE = 0, 1, 2, 3

# A message for which there was no room is sent again after this time.
ROOM_AGAIN_S = 0.05


class Always:
    """What an entry of the agenda belongs to if it is not about one task."""

    state = QUEUED


ALWAYS = Always()

# A value: (flag, meta, location, inner refs, lane whose worker made its segment)
Value = tuple[int, bytes, Any, Any, Any]

# A value in the owner's table. For most values, small and without refs, only the pickle is stored. Python's
# garbage collector visits every tuple, and every dict that contains one, at each collection
# (docs/decisions/0014).
Stored = bytes | Value


def slim(value: Value) -> Stored:
    """A value in its stored form."""
    return value[1] if value[0] == 0 and value[2] is None and value[3] is None else value


def whole(stored: Stored) -> Value:
    """A stored value with all its parts."""
    return (0, stored, None, None, None) if type(stored) is bytes else stored  # type: ignore[return-value]


class Code:
    """The pickled code of a function or class, shared by all its variants with options."""

    __slots__ = ("blob", "function", "hash", "numbers")

    def __init__(self, hash_: bytes, blob: bytes) -> None:
        self.hash = hash_
        self.blob = blob
        self.function: object = None  # a weak ref to the function, or the function itself
        # (name, returns, retry_exceptions, max_calls) -> the number by which workers know this combination
        self.numbers: dict[tuple[object, ...], int] = {}


class Fn:
    """A remote function or method as this owner submits it: code, name and the options that matter here."""

    __slots__ = (
        "backpressure",
        "code",
        "counted",
        "estimate_s",
        "extra",
        "function",
        "generator",
        "max_calls",
        "max_retries",
        "name",
        "number",
        "one",
        "queue_timeout_s",
        "retry_exceptions",
        "retry_timeout",
        "returns",
        "shape",
        "site_at",
        "site_code",
        "timeout_s",
        "together",
    )

    def __init__(self, number: Any, name: str) -> None:
        self.number = number  # the number by which a worker knows the function; for a method its name
        self.name = printable(name)
        self.function = self.name  # the function's own name, whatever name the task was given
        self.code: Code | None = None  # None for a method
        self.returns: Any = 1
        self.one = True  # returns exactly one ref and has no timeouts: the hot path
        self.timeout_s: float | None = None
        self.queue_timeout_s: float | None = None
        self.retry_timeout = False  # an attempt that ran too long is retried
        self.generator = False
        self.max_retries = 3
        self.retry_exceptions: object = False
        self.max_calls = 0
        self.backpressure = -1
        self.counted = False  # the actor has one limit for the unread items of all its generators
        self.extra: Extra | None = None
        self.estimate_s = -1.0  # negative: unknown
        self.shape: Shape | None = None
        # the code object of the line that submitted the function last (owner/call_sites.py)
        self.site_code: object = None
        self.site_at = -1
        self.together = False  # may share a packet with other tasks although it is not retried


class ArgumentWaiter:
    """Something else than a task or a call that waits for its arguments: an actor's constructor."""

    def start(self, task: Task) -> None:
        """All values are here (locked)."""
        raise NotImplementedError

    def fail(self, task: Task, error: bytes) -> None:
        """One of the arguments is an error (locked)."""
        raise NotImplementedError


class Task:
    """One submitted task or call. The table of these is the lineage.

    No `__slots__`: an instance with inline values is as small, and defaults on the class need not be set
    for each of a million tasks.
    """

    deps: list[bytes] | None = None  # refs whose values are sent with the task, by slot
    missing = 0
    memory_attempt = 0  # number of attempts that ended because memory ran out
    cancelled = False
    estimate_s = 0.0
    lane: Lane | None = None
    # set if this row is not a task or call but a constructor that waits for its arguments
    waiter: ArgumentWaiter | None = None
    parent: bytes | None = None  # in a worker: the task or call that submitted this one
    # the attempt that has begun, as its worker reported; reported for tasks with a timeout_s, or on request
    began = -1
    overdue = False  # its worker was killed because the task ran too long and did not stop
    stack = ""  # the stack at the moment of the timeout
    # For the rerun when a result is lost (owner/lineage.py):
    lossy: set[bytes] | None = None  # results that are stored in segments
    needs: tuple[bytes, ...] | None = None  # the objects that the task used, once it has finished
    saved: dict[bytes, Value] | None = None  # small values of top-level refs
    kept_bytes = 0
    retries_at_close: int | None = None  # an unread generator is cancelled, but may run again
    rebuilding: set[bytes] | None = None  # during a rerun: the results that are needed
    given_up: set[bytes] | None = None  # results that the program freed (owner/frees.py)

    def __init__(self, task_id: bytes, fn: Fn, args: Any, submit_s: float) -> None:
        self.id = task_id
        self.fn = fn
        self.args = args
        self.submit_s = submit_s
        self.retries = fn.max_retries
        # Set on the instance, since these are read for every task: reading from the class takes four times as
        # long.
        self.state = QUEUED
        self.attempt = 0
        self.extra = fn.extra
        self.actor: ActorLane | None = None  # the lane of the actor, for a call
        self.holds: list[bytes] | None = None  # refs held until the reply


def _reserve() -> None:
    """Have room for what is set later in each task. A class has that only for names that its first thirty or so
    instances set: after a program that begins with a burst, every task would get a dict of its own for them."""
    first = Task(b"", Fn(0, ""), None, 0.0)
    first.lane = first.parent = first.deps = None
    first.estimate_s = 0.0
    first.missing = 0


_reserve()


class Shape:
    """Tasks that need the same kind of lease: they share a queue and the workers leased for it."""

    __slots__ = ("crew", "crowded", "key", "lanes", "queue", "setup", "spec", "spent", "wanted")

    def __init__(self, key: int, spec: LeaseSpec, setup: LeaseSetup) -> None:
        self.key = key
        self.spec = spec
        self.setup = setup
        self.queue: deque[Task] = deque()
        self.lanes: list[LeasedLane] = []
        # With the strategy SPREAD: leases that have run their one task. The next task asks for another node.
        self.spent: set[int] | None = set() if spec.strategy == ("spread",) else None
        self.wanted = 0  # the want of this shape that the node knows
        self.crowded = False  # some lane has more tasks than the one it runs
        self.crew: CrewTerms | None = None  # set if this shape has a fixed number of workers of its own


class CrewTerms:
    """How many workers a shape holds for itself, from the first task to the end of the crew (owner/crews.py)."""

    __slots__ = ("mustering", "open", "size", "spoiled")

    def __init__(self, size: int, spoiled: bool) -> None:
        self.size = size
        self.open = True  # the workers are kept while they are idle
        self.mustering = True  # each new worker gets exactly one task first
        self.spoiled = spoiled  # no other shape may use these workers afterwards
