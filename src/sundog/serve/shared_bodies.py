"""Memory for the bodies of long requests that a proxy and the replicas share.

::

    client ══recv_into══► a slot of the proxy's memory ──handle_http(head, where the slot is)──► a replica
                                    └──────────── mapped by the replica: one copy, into `bytes` ─────┘

Owns the memory (`memfd_create`: it has no name, so nothing is left behind when a proxy is killed), its slots, and the
rule which users may read one. A slot is taken for one request and given back when the call that reads it is over. Each
taking has a number, which stands in the slot; a replica that finds another number there than the one in its request has
a request whose caller has given up, and reads nothing. Slots keep their pages, because a fresh page costs more
than copying into an old one; the pages go back to the system when no request has needed them for a while.

`BodyPool` runs in a proxy's loop, `BodyReaders` in a replica's.
"""

from __future__ import annotations

import mmap
import os

from sundog.plain import NamedTuple

SLOT_BODY_MAX_BYTES = 4 * 1024 * 1024
_HEAD_BYTES = 4096  # of a slot: its number stands there; a page, so that bodies are aligned
_SLOT_BYTES = _HEAD_BYTES + SLOT_BODY_MAX_BYTES
_SLOTS = 16  # when all are taken, bodies are sent as arguments
# glibc returns freed memory at the end of its heap to the system when it is more than twice the largest block that was
# ever freed. Without that block, each body of a megabyte would be made of fresh pages.
_LARGE_BLOCK_BYTES = 31 * 1024 * 1024


class BodyPlace(NamedTuple):
    """Where a body is."""

    pid: int
    fd: int  # of the memory, in that process
    inode: int
    offset: int  # of the slot
    length: int
    number: int  # of the taking


class BodySlot:
    """A slot that is taken."""

    __slots__ = ("_index", "_pool", "place", "view")

    def __init__(self, pool: BodyPool, index: int, length: int, number: int) -> None:
        self._pool, self._index = pool, index
        offset = index * _SLOT_BYTES
        self.place = BodyPlace(pool.pid, pool.fd, pool.inode, offset, length, number)
        at = offset + _HEAD_BYTES
        self.view: memoryview = pool.memory[at : at + length]

    def release(self) -> None:
        """The call that reads it is over, or was never made; a second time does nothing."""
        if self._index >= 0:
            self.view.release()
            self._pool.give_back(self._index)
            self._index = -1


def plain_body(body: bytes | bytearray | BodySlot) -> bytes | bytearray:
    """A body in memory of this process alone."""
    return bytes(body.view) if isinstance(body, BodySlot) else body


class BodyPool:
    """A proxy's memory for bodies."""

    def __init__(self) -> None:
        self.is_off = False  # a replica could not read it
        self.fd = -1
        self.pid = self.inode = 0
        self._map: mmap.mmap | None = None
        self.memory = memoryview(b"")
        self._free = list(reversed(range(_SLOTS)))
        self._number = 0
        self._is_used = self._has_pages = False

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def take(self, length: int) -> BodySlot | None:
        """A slot for a body; None: there is none, or the body is too long for one."""
        if self.is_off or length > SLOT_BODY_MAX_BYTES or not self._free:
            return None
        if self.fd < 0 and not self._open():
            return None
        self._number += 1
        self._is_used = self._has_pages = True
        index = self._free.pop()  # the one that was given back last: its pages are there
        at = index * _SLOT_BYTES
        self.memory[at : at + 8] = self._number.to_bytes(8, "little")
        return BodySlot(self, index, length, self._number)

    def _open(self) -> bool:
        try:
            self.fd = os.memfd_create("sundog-serve-bodies", os.MFD_CLOEXEC)
            os.ftruncate(self.fd, _SLOTS * _SLOT_BYTES)
            self._map = mmap.mmap(self.fd, _SLOTS * _SLOT_BYTES)
        except OSError:  # no such call, or no memory: bodies are sent as arguments
            self.is_off = True
            return False
        self.memory = memoryview(self._map)
        self.pid, self.inode = os.getpid(), os.fstat(self.fd).st_ino
        return True

    def give_back(self, index: int) -> None:
        """A slot is free again."""
        self._free.append(index)

    def trim(self) -> None:
        """Return the pages to the system if no slot was taken since the last time; called now and then."""
        is_idle = not self._is_used and len(self._free) == _SLOTS
        self._is_used = False
        if is_idle and self._has_pages and self._map is not None:
            self._has_pages = False
            self._map.madvise(mmap.MADV_REMOVE)


class BodyReaders:
    """The memory of proxies, as a replica has mapped it."""

    def __init__(self) -> None:
        self._maps: dict[tuple[int, int, int], memoryview] = {}

    def read(self, place: BodyPlace) -> bytes | None:
        """The body at a place. None: the slot has another body now, because the caller of this request has given up.

        Raises:
            OSError: the memory of the proxy cannot be mapped.
        """
        key = place[:3]
        found = self._maps.get(key)
        if found is None:
            found = self._open(place)
        start = place.offset + _HEAD_BYTES
        number = place.number.to_bytes(8, "little")
        if found[place.offset : place.offset + 8] != number:
            return None
        body = bytes(found[start : start + place.length])
        # Looked at once more: the proxy may have taken the slot for another request while it was copied.
        return body if found[place.offset : place.offset + 8] == number else None

    def _open(self, place: BodyPlace) -> memoryview:
        for key in list(self._maps):
            if not os.path.exists(f"/proc/{key[0]}"):  # this proxy has ended: its memory is to be freed
                del self._maps[key]
        fd = os.open(f"/proc/{place.pid}/fd/{place.fd}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_ino != place.inode:
                raise OSError(f"The file {place.fd} of process {place.pid} is no memory of a proxy.")
            mapped = mmap.mmap(fd, _SLOTS * _SLOT_BYTES, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        bytearray(_LARGE_BLOCK_BYTES)  # made and freed, untouched: see there
        found = self._maps[place[:3]] = memoryview(mapped)
        return found
