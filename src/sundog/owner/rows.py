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

# When a message that found no room is tried again.
ROOM_AGAIN_S = 0.05


class Always:
    """What an entry of the agenda belongs to that is not about one task."""

    state = QUEUED


ALWAYS = Always()

# A value: (flag, meta, location, inner refs, lane whose worker made its segment)
Value = tuple[int, bytes, Any, Any, Any]

# A value as the owner's table has it. Most are small and plain: of these only the pickle is there. Python's collector
# looks at every tuple, and at every dict that has one, again and again (docs/decisions/0014).
Stored = bytes | Value


def slim(value: Value) -> Stored:
    """A value as it is stored."""
    return value[1] if value[0] == 0 and value[2] is None and value[3] is None else value


def whole(stored: Stored) -> Value:
    """A stored value with all its parts."""
    return (0, stored, None, None, None) if type(stored) is bytes else stored  # type: ignore[return-value]


class Code:
    """The pickled code of a function or class, shared by all that is made of it with options."""

    __slots__ = ("blob", "function", "hash", "numbers")

    def __init__(self, hash_: bytes, blob: bytes) -> None:
        self.hash = hash_
        self.blob = blob
        self.function: object = None  # a weak ref to it, or the function itself
        # (name, returns, retry_exceptions, max_calls) -> the number by which workers know it with these
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
        self.number = number  # by which a worker knows the function; a method's own name
        self.name = printable(name)
        self.function = self.name  # its own name, whatever the task is called
        self.code: Code | None = None  # None of a method
        self.returns: Any = 1
        self.one = True  # returns exactly one ref, and nothing has to be watched: the hot path
        self.timeout_s: float | None = None
        self.queue_timeout_s: float | None = None
        self.retry_timeout = False  # a run that took too long is tried again
        self.generator = False
        self.max_retries = 3
        self.retry_exceptions: object = False
        self.max_calls = 0
        self.backpressure = -1
        self.counted = False  # of an actor that bounds the unread items of all its generators together
        self.extra: Extra | None = None
        self.estimate_s = -1.0  # unknown
        self.shape: Shape | None = None
        self.site_code: object = None  # the line that submitted it last (owner/call_sites.py)
        self.site_at = -1
        self.together = False  # may share a packet with others although it is not tried again


class ArgumentWaiter:
    """Something else than a task or a call that waits for its arguments: an actor's constructor."""

    def start(self, task: Task) -> None:
        """All values are here (locked)."""
        raise NotImplementedError

    def fail(self, task: Task, error: bytes) -> None:
        """One of them is an error (locked)."""
        raise NotImplementedError


class Task:
    """One submitted task or call. The table of these is the lineage.

    No `__slots__`: an instance with inline values is as small, and defaults on the class need not be set
    for each of a million tasks.
    """

    deps: list[bytes] | None = None  # refs whose values travel along, by slot
    missing = 0
    memory_attempt = 0  # attempts that ended because memory ran out
    cancelled = False
    estimate_s = 0.0
    lane: Lane | None = None
    waiter: ArgumentWaiter | None = None  # what it is instead of a task or call: a constructor that waits
    parent: bytes | None = None  # the task or call that submitted it, in a worker
    began = -1  # the attempt that its worker said has begun; told of tasks with a timeout_s, or when asked
    overdue = False  # its worker was killed for it: it ran too long and did not stop
    stack = ""  # where it was when its time was over
    # For running it again when a result is lost (owner/lineage.py):
    lossy: set[bytes] | None = None  # its results in segments
    needs: tuple[bytes, ...] | None = None  # objects that it was made from, once it has finished
    saved: dict[bytes, object] | None = None  # small values of top-level refs
    kept_bytes = 0
    retries_at_close: int | None = None  # a generator that nobody reads on is cancelled, but may run again
    rebuilding: set[bytes] | None = None  # it runs again: which results are wanted of it
    given_up: set[bytes] | None = None  # results that the program freed (owner/frees.py)

    def __init__(self, task_id: bytes, fn: Fn, args: Any, submit_s: float) -> None:
        self.id = task_id
        self.fn = fn
        self.args = args
        self.submit_s = submit_s
        self.retries = fn.max_retries
        # Read for every task: what is found on the class takes four times as long to read.
        self.state = QUEUED
        self.attempt = 0
        self.extra = fn.extra
        self.actor: ActorLane | None = None  # of a call
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
    """Tasks that want the same kind of lease share a queue and the workers leased for it."""

    __slots__ = ("crew", "crowded", "key", "lanes", "queue", "setup", "spec", "spent", "wanted")

    def __init__(self, key: int, spec: LeaseSpec, setup: LeaseSetup) -> None:
        self.key = key
        self.spec = spec
        self.setup = setup
        self.queue: deque[Task] = deque()
        self.lanes: list[LeasedLane] = []
        # Of the strategy SPREAD: leases that had their one task, after which the next task asks for another node.
        self.spent: set[int] | None = set() if spec.strategy == ("spread",) else None
        self.wanted = 0  # leases the node believes we want
        self.crowded = False  # some lane has more than the task it runs
        self.crew: CrewTerms | None = None  # the workers are held, so many and no more


class CrewTerms:
    """How many workers a shape holds for itself, from the first task to the end of the crew (owner/crews.py)."""

    __slots__ = ("mustering", "open", "size", "spoiled")

    def __init__(self, size: int, spoiled: bool) -> None:
        self.size = size
        self.open = True  # its workers are held while they have nothing to do
        self.mustering = True  # each worker that comes gets one task, its first
        self.spoiled = spoiled  # its workers serve nobody else afterwards
