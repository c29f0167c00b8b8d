"""Plain fakes for units of the owner: what a part needs of its surroundings, and notes of what it did to them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from sundog.events import NoRing
from sundog.exceptions import ObjectLostError
from sundog.ids import IdMaker, random_id
from sundog.owner.objects import Objects
from sundog.owner.rows import Task
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
