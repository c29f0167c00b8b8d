"""Plain fakes for units of the owner: what a part needs of its surroundings, and notes of what it did to them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from sundog.config import Config
from sundog.events import NoRing
from sundog.exceptions import ObjectLostError
from sundog.ids import IdMaker, random_id
from sundog.owner.lanes import ActorLane, Lane
from sundog.owner.objects import Objects
from sundog.owner.pauses import KnownPauses
from sundog.owner.rows import Task, Value
from sundog.owner.unread import UnreadErrors

ME = b"me" * 4
OTHER = b"ot" * 4


class FakeReactor:
    """A reactor that reads nothing."""

    dormant = False
    leader = False

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None] | None] = {}
        self.woken = 0
        self.ticking = False

    def is_robbed(self) -> bool:
        return False

    def add(self, fd: int, handler: Callable[[], None]) -> None:
        self.readers[fd] = handler

    def remove(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def watch_writable(self, fd: int, handler: Callable[[], None] | None) -> None:
        self.writers[fd] = handler

    def rouse(self) -> None:
        self.dormant = False

    def wake(self) -> None:
        self.woken += 1

    def tick_every(self, tick_s: float) -> None:
        self.tick_s = tick_s

    def start_ticking(self) -> None:
        self.ticking = True

    def glance(self) -> None:
        pass


class FakeSegments:
    """Segments that are names, and what became of each."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str]] = []
        self.written: list[Any] = []
        self.lost: set[str] = set()
        self.several = False

    def recycle(self, name: str, _size: int) -> None:
        self.ended.append(("recycled", name))

    def unlink(self, name: str) -> None:
        self.ended.append(("unlinked", name))

    def forget(self, name: str) -> None:
        self.ended.append(("forgotten", name))

    def abandon(self, name: str, *, remove: bool) -> None:
        self.ended.append(("removed" if remove else "abandoned", name))

    def write(self, buffers: Any) -> Any:
        self.written.append(buffers)
        return (f"segment-{len(self.written)}", 8, [(0, 8)])

    def viewed(self) -> dict[bytes, int]:
        return {}

    def path(self, name: str) -> str:
        return f"/nowhere/{name}"

    def view(self, location: Any, _oid: bytes) -> Any:
        if location[0] in self.lost:
            raise ObjectLostError("gone", object_ref_hex="")
        return None


class FakeAround:
    """The other parts of the owner: `words` are what would be sent, `made` are objects that are on their way."""

    def __init__(self) -> None:
        self.words: list[tuple[bytes, tuple[object, ...]]] = []
        self.notes: list[tuple[str, bytes]] = []
        self.made: set[bytes] = set()
        self.queued: list[Task] = []

    def send_word(self, process: bytes, word: tuple[object, ...]) -> None:
        self.words.append((process, word))

    def ask_owner(self, oid: bytes) -> None:
        self.notes.append(("asked", oid))

    def forget_borrowed(self, oid: bytes) -> None:
        self.notes.append(("forgot", oid))

    def nobody_asks(self, oid: bytes) -> None:
        self.notes.append(("nobody asks", oid))

    def not_made(self, oid: bytes) -> None:
        self.notes.append(("not made", oid))

    def lineage_freed(self, oid: bytes) -> None:
        self.notes.append(("lineage", oid))

    def comes(self, oid: bytes) -> bool:
        return oid in self.made

    def unknown(self, oid: bytes) -> BaseException:
        return ObjectLostError(f"unknown {oid.hex()}", object_ref_hex=oid.hex())

    def arguments_ready(self, task: Task) -> None:
        self.queued.append(task)


def make_objects(me: bytes = ME, *, inline_max: int = 1000, uncounted_allowed: bool = True) -> Objects:
    """Objects among fakes; `objects.around` and `objects.segments` are theirs."""
    fakes: tuple[Any, Any] = FakeSegments(), FakeReactor()
    objects = Objects(
        me,
        IdMaker(me, 1),
        threading.RLock(),
        deque(),
        fakes[0],
        fakes[1],
        NoRing(),
        UnreadErrors(True, lambda _call, _meta: None),
        inline_max=inline_max,
        uncounted_allowed=uncounted_allowed,
    )
    objects.around = FakeAround()
    return objects


def new_id(process: bytes = ME) -> bytes:
    """The id of some object of a process."""
    return process + random_id(8) + (1).to_bytes(4, "little")


class FakeControl:
    """The line to the node: what was sent on it."""

    shm_root = "/nowhere"
    session: ClassVar[dict[str, Any]] = {"path": "/nowhere"}

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.fds: list[int] = []  # duplicates of what was sent along, to be closed by the test
        self.wants: list[tuple[int, int]] = []
        self.last_grant = 0
        self.receive_buffer = memoryview(bytearray(1 << 16))

    def send(self, message: Any, fds: tuple[int, ...] = ()) -> None:
        self.sent.append(message)
        self.fds += [os.dup(fd) for fd in fds]

    def want(self, shape: Any, leases: int) -> None:
        self.wants.append((shape.key, leases))

    def ring_path(self, process: bytes) -> str:
        return f"/nowhere/{process.hex()}.ring"

    def log_path(self, process: bytes) -> str:
        return f"/nowhere/{process.hex()}.err"


class FakeAgenda:
    """What is due later: called by the test."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def after(self, _delay_s: float, _task: object, call: Callable[..., None], *args: Any) -> None:
        self.due.append(lambda: call(*args))


class FakeActors:
    """No actors: what was told to workers."""

    def __init__(self) -> None:
        self.unopened: deque[ActorLane] = deque()
        self.links: dict[bytes, ActorLane] = {}
        self.told: list[Any] = []
        self.rounds = 0
        self.shortages = 0

    def tell(self, _lane: Lane, message: Any) -> None:
        self.told.append(message)

    def dispatch_all(self) -> None:
        self.rounds += 1

    def tell_shortage(self) -> None:
        self.shortages += 1

    def is_scope(self, _oid: bytes) -> bool:
        return False


class FakeReplies:
    """What became of tasks: failed with these errors; replies are kept."""

    def __init__(self) -> None:
        self.failed: list[tuple[Task, BaseException]] = []
        self.ended: list[tuple[Task, Value]] = []
        self.heard: list[Any] = []

    def fail_with(self, task: Task, error: BaseException) -> None:
        self.failed.append((task, error))

    def fail(self, task: Task, value: Value) -> None:
        self.ended.append((task, value))

    def handle(self, _lane: Any, batch: Any) -> None:
        self.heard.append(batch)


class FakeCancels:
    """Tasks that were failed because they had been cancelled."""

    def __init__(self) -> None:
        self.failed: list[Task] = []

    def fail(self, task: Task) -> None:
        self.failed.append(task)


class FakePeers:
    """No other processes: what was sent to them."""

    def __init__(self) -> None:
        self.unanswered: set[bytes] = set()
        self.sent: list[Any] = []

    def send(self, process: bytes, message: Any) -> None:
        self.sent.append((process, *message))


class FakeDeliveries:
    """Calls that are to run elsewhere: noted."""

    def __init__(self) -> None:
        self.brought: list[tuple[Any, ...]] = []

    def bring(self, *call: Any) -> None:
        self.brought.append(call)


class FakeStreams:
    """No generator runs."""

    def __init__(self) -> None:
        self.streams: dict[bytes, Any] = {}


class FakeOwner:
    """Basics whose objects are real, and fakes of the parts; a test gives them to the part that it is about."""

    closed: BaseException | None = None
    before_block: Callable[[], None] | None = None
    after_block: Callable[[], None] | None = None
    run_here: Callable[[list[bytes]], bool] | None = None
    actor_here: Callable[[], object] | None = None
    notes_parents = False
    running_calls = dict

    def __init__(self, config: Config | None = None, me: bytes = ME, *, inline_max: int = 1000) -> None:
        self.config = config or Config()
        self.objects = objects = make_objects(me, inline_max=inline_max)
        self.me, self.lock, self.ids, self.ring = objects.me, objects.lock, objects.ids, objects.ring
        self.ops, self.refs, self.segments = objects.ops, objects.refs, objects.segments
        self.ready, self.table, self.waiters = objects.ready, objects.table, objects.waiters
        self.dependents, self.freed_early = objects.dependents, objects.freed_early
        self.nested, self.unread = objects.nested, objects.unread
        self.inline_max = objects.inline_max
        self.pauses, self.deliveries = KnownPauses(), FakeDeliveries()
        self.reactor: Any = objects.reactor
        self.control = FakeControl()
        self.agenda = FakeAgenda()
        self.peers = FakePeers()
        self.getting: Any = None  # nothing blocks
        self.lineage: Any = None  # nothing is lost
        self.actors = FakeActors()
        self.replies = FakeReplies()
        self.cancels = FakeCancels()
        self.streams = FakeStreams()

    def check_open(self) -> None:
        if self.closed is not None:
            raise self.closed

    def wall_s(self) -> float:
        return 1e9


def make_owner(config: Config | None = None, me: bytes = ME, *, inline_max: int = 1000) -> Any:
    """A `FakeOwner` for the parts that a test makes of it."""
    return FakeOwner(config, me, inline_max=inline_max)
