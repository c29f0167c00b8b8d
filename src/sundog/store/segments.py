"""Shared-memory segments: files under the session's folder in /dev/shm, in size classes, recycled.

Owns the files this process makes, its mappings, and its free list. Refuses to decide when an object
is free: the owner says so, after the reference table did. Runs in every process, any thread; a lock
guards the free list.

Why recycle: a warm segment takes 8 GB/s, a cold mapping 1. Why it cannot corrupt: a segment reaches a
free list only after its object is free, and every live view of the bytes, in any process, counts as a
hold on the object (`view` appends a birth and, when the exporter dies, a death to the owner's deque).

A segment's name says whose it is: ``<owner>-<maker>-<n>`` while an object lives in it,
``free-<maker>-<n>`` on a free list. So when a process dies, the node can remove the objects that ended with
it and the segments that it kept for later (`belongs_to`), and nothing else.

The store has a limit (`sundog.store.credit`). Beyond it the node moves the objects that were used longest ago to
disk, whichever process made them: a segment's file may go at any moment, and only a reader, or the process that frees
the object, need know. A reader that finds no file asks the node to bring it back (`room.restore`); it comes back into
the folder `restored`, which is the node's own, so that such a copy never reaches a free list. A process that frees an
object and finds no file tells the node (`room.freed`). A file that is being written must not go: see `trim`.

When the store has no room, or /dev/shm is full, the segment goes to the session's folder on disk, under the same
interface: slow, not wrong. When the disk is full too the caller gets `OutOfDiskError`.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from sundog.exceptions import LocalRayletDiedError, ObjectLostError
from sundog.store import places, refusals
from sundog.store.credit import PAGE, Credit

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor


# (name, size of the segment, [(offset, length) of each buffer])
Location = tuple[str, int, list[tuple[int, int]]]
_ALIGN = 63
_SMALLEST_BITS = 17
_DISK = "disk-"
_FREE = "free-"
_TWO_THREADS_BYTES = 8 << 20
# A process keeps at most this part of the machine's memory in free segments.
_FREE_SHARE = 12
# ... and at most this part of the store's limit.
_FREE_SHARE_OF_STORE = 4
_monotonic = time.monotonic
_FULL = (errno.ENOSPC, errno.ENOMEM, errno.EDQUOT)
_UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
RESTORED = "restored"
_RESTORE_TRIES = 20


class RoomAsker(Protocol):
    """What the node does for the segments of a process (`sundog.owner.room`)."""

    def obtain(self, missing: int, aside: int) -> bool:
        """Ask for credit, part of it to be set aside at once; False if the segment should go to disk."""

    def restore(self, name: str, *, directly: bool) -> tuple[str, int] | None:
        """Bring a spilled object back; returns path and offset of its bytes, None if it is lost."""

    def freed(self, name: str) -> None:
        """The object is free, and its file was not here."""


def size_class(size_bytes: int) -> int:
    """The segment size for this many bytes: powers of two and the halves between, from 96 KiB."""
    bits = max(_SMALLEST_BITS, (size_bytes - 1).bit_length())
    low = 1 << (bits - 1)
    middle = low + low // 2
    return middle if size_bytes <= middle else 1 << bits


def belongs_to(name: str, process: bytes) -> bool:
    """Whether a segment's file ends with a process: it held the process' objects, or waited on its free list."""
    name = name.removeprefix(_DISK).removeprefix(_FREE)
    return name.startswith(process.hex() + "-")


class _Lazy:
    """Imports the mapping module (and ctypes) when the first large object comes along."""

    def __getattr__(self, name: str) -> object:
        from sundog.store import mapping as module

        global mapping
        mapping = module
        return getattr(module, name)


mapping: Any = _Lazy()


class Segments:
    """The segments that one process makes and the mappings it reads through."""

    def __init__(
        self,
        shm_root: str,
        disk_root: str,
        me: bytes,
        ops: deque[bytes | tuple[bytes, ...]],
        node_tag: str = "",
    ) -> None:
        """The roots are those of the head; `node_tag` is of the node on which this process runs ("": the head)."""
        self.base_root = shm_root
        self.base_disk = disk_root
        self.shm_root = places.shared_root(shm_root, node_tag)
        self.disk_root = places.disk_root(disk_root, node_tag)
        self.several = bool(node_tag)  # other nodes of the session may have copies of this process's objects
        self.tag = node_tag
        self._suffix = places.suffix(node_tag)
        self.begin(me)
        self._ops = ops
        self._count = itertools.count()
        # Re-entrant: a garbage collection in this code may run a user's finaliser that calls put().
        self._lock = threading.RLock()
        self._free: dict[int, list[str]] = {}
        self._free_bytes = 0
        self._free_order: dict[str, int] = {}  # name -> size, the oldest first
        self._free_max = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _FREE_SHARE
        self._write_maps: dict[str, tuple[int, int]] = {}
        self._read_maps: dict[str, tuple[int, int]] = {}
        self._views: dict[int, tuple[weakref.ref[object], bytes, str]] = {}
        self._shared_views: dict[str, weakref.ref[object]] = {}
        self._viewing: list[str] = []  # segments of which a view is being made: their mappings must stay
        self._abandoned: set[str] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._writing: set[str] = set()
        self._used: dict[str, float] = {}  # name -> when a view of it was made last
        self.credit = Credit()
        self.room: RoomAsker | None = None
        self.made_bytes = 0

    def begin(self, me: bytes) -> None:
        """Make segments of this process from now on."""
        self._me = me.hex()
        self._my_prefix = f"{self._me}-{self._me}-"

    def live_within(self, limit_bytes: int, room: RoomAsker) -> None:
        """Respect the store's limit, through the node."""
        self._free_max = min(self._free_max, limit_bytes // _FREE_SHARE_OF_STORE)
        self.room = room
        self.credit.limited(room.obtain)

    def path(self, name: str) -> str:
        """Where a segment's file is: at its home, whichever node that is."""
        tag = places.tag_of(name)
        if name.startswith(_DISK):
            return f"{places.disk_root(self.base_disk, tag)}/{name}"
        if name.startswith(_FREE):
            return f"{self.shm_root}/{name}"
        return f"{places.shared_root(self.base_root, tag)}/{name}"

    # ------------------------------------------------------------------ writing
    def write(self, buffers: list[memoryview], owner: bytes | None = None) -> Location:
        """Copy buffers into one segment, for an object of `owner` (ours by default).

        Raises:
            OutOfDiskError: neither shared memory nor the disk has room.
        """
        offsets, end = [], 0
        for buffer in buffers:
            offsets.append((end, buffer.nbytes))
            end = (end + buffer.nbytes + _ALIGN) & ~_ALIGN
        size = size_class(end)
        prefix = f"{owner.hex()}-{self._me}-" if owner else self._my_prefix
        taken = self._take_free(size, prefix) if self._free.get(size) else None
        if taken is None:
            return self._write_cold(prefix, size, end, offsets, buffers), size, offsets
        name, known = taken
        try:
            if known is None:
                known = self._map_writable(name, size)
            address = known[0]
            for (offset, length), buffer in zip(offsets, buffers, strict=True):
                if length < _TWO_THREADS_BYTES:
                    mapping.copy_in(address + offset, buffer)
                else:
                    self._copy_in_halves(address + offset, length, buffer)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                if known is not None or error.errno not in _FULL:
                    raise refusals.named(error, size) from None
                self._remove(name)  # there is no room to enlarge it: its pages are of more use elsewhere
            # Or the segment was removed after it got its new name. If all of shared memory is gone, creating
            # a new segment reports it.
            return self._write_cold(prefix, size, end, offsets, buffers), size, offsets
        finally:
            if known is not None:
                self._write_maps[name] = known
            self._writing.discard(name)
        return name, size, offsets

    def _take_free(self, size: int, prefix: str) -> tuple[str, tuple[int, int] | None] | None:
        """A segment of the free list under its new name, and our mapping of it while no other thread may end that."""
        with self._lock:
            names = self._free.get(size)
            if not names:
                return None
            self._free_bytes -= size
            free = names.pop()
            del self._free_order[free]
            name = f"{prefix}{next(self._count)}{self._suffix}"
            known = self._write_maps.pop(free, None)
            self._writing.add(name)
            try:
                os.rename(f"{self.shm_root}/{free}", f"{self.shm_root}/{name}")
            except OSError:
                self._writing.discard(name)
                if known is not None:
                    mapping.unmap(*known)
                return None
            return name, known

    def _map_writable(self, name: str, size: int) -> tuple[int, int]:
        path = self.path(name)
        missing = size - os.stat(path).st_blocks * 512
        if missing > 0:
            # The segment was made for a smaller object. Filling its holes through a mapping would raise
            # SIGBUS when memory is full.
            mapping.reserve(path, size)
            self.credit.grown(missing)
        return mapping.map_file(path, size, writable=True), size

    def _copy_in_halves(self, address: int, length: int, buffer: memoryview) -> None:
        flat = buffer.cast("B")
        half = length // 2
        future = self._beside(mapping.copy_in, address, flat[:half])
        mapping.copy_in(address + half, flat[half:])
        future.result()

    def _beside(self, call: Callable[..., None], *args: object) -> Future[None]:
        """Have a call run in the copy thread; here, where the system allows no thread more."""
        from concurrent.futures import Future, ThreadPoolExecutor

        pool = self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="sundog-copy")
        try:
            return pool.submit(call, *args)
        except RuntimeError:
            self._pool = None  # it has queued the call, which must never run later
            done: Future[None] = Future()
            call(*args)
            done.set_result(None)
            return done

    def _write_cold(
        self, prefix: str, size: int, end: int, offsets: list[tuple[int, int]], buffers: list[memoryview]
    ) -> str:
        name = f"{prefix}{next(self._count)}{self._suffix}"
        need = (end + PAGE) & ~PAGE
        if not self.credit.reserve(need):
            return self._write_disk(
                name, size, need, offsets, buffers, "has no room for it within the store's limit"
            )
        self._writing.add(name)
        try:
            self._write_file(self.path(name), size, offsets, buffers)
        except BaseException as error:
            self.credit.unwritten(need)
            with contextlib.suppress(OSError):
                os.unlink(self.path(name))
            if not isinstance(error, OSError):
                raise
            if error.errno == errno.ENOENT and not os.path.isdir(self.shm_root):
                raise LocalRayletDiedError(
                    f"The session's shared memory ({self.shm_root}) is gone: its node was killed, or the session has "
                    "ended. Call sundog.shutdown() and sundog.init() to start a new session."
                ) from None
            if error.errno not in (*_FULL, *_UNWRITABLE):
                raise refusals.named(error, need) from None
            return self._write_disk(name, size, need, offsets, buffers, f"says: {error.strerror}")
        finally:
            self._writing.discard(name)
        self.credit.written(need)
        self.made_bytes += size
        return name

    def _write_disk(
        self,
        name: str,
        size: int,
        need: int,
        offsets: list[tuple[int, int]],
        buffers: list[memoryview],
        why: str,
    ) -> str:
        """Write a segment to disk, because shared memory has no room."""
        name = _DISK + name
        try:
            os.makedirs(self.disk_root, mode=0o700, exist_ok=True)
            # Checked first: a write that must fail would fill the disk for every program before it fails.
            if need > refusals.free_bytes(self.disk_root):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._write_file(self.path(name), size, offsets, buffers)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(self.path(name))
            if error.errno not in (*_FULL, *_UNWRITABLE):
                raise refusals.named(error, need) from None
            shared = f"shared memory ({self.shm_root}) {why}"
            raise refusals.fits_nowhere(error, need, shared, self.disk_root) from None
        self.made_bytes += size
        return name

    def _write_file(
        self, path: str, size: int, offsets: list[tuple[int, int]], buffers: list[memoryview]
    ) -> None:
        # write() into a new file is twice as fast as faulting in its pages through a mapping, and on a full
        # disk it returns an error instead of raising SIGBUS.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size)
            for (offset, length), buffer in zip(offsets, buffers, strict=True):
                flat = buffer.cast("B") if buffer.format != "B" or buffer.ndim != 1 else buffer
                if length < _TWO_THREADS_BYTES:
                    _write_all(fd, flat, offset)
                    continue
                half = (length // 2) & ~4095
                future = self._beside(_write_all, fd, flat[:half], offset)
                try:
                    _write_all(fd, flat[half:], offset + half)
                finally:
                    future.result()
        finally:
            os.close(fd)

    # ------------------------------------------------------------------ reading
    def view(self, location: Location, oid: bytes | None) -> list[memoryview]:
        """Read-only views of an object's buffers; while any lives, the object is held.

        Raises:
            ObjectLostError: the segment's file is gone.
            OSError: it is there, and cannot be mapped.
        """
        name, size, offsets = location
        known = self._shared_views.get(name)
        whole = known() if known is not None else None
        if whole is None:
            with self._lock:  # `trim` ends mappings that have no view
                self._viewing.append(name)
                try:
                    found = self._read_maps.get(name) or self._mapped(name, size, oid)
                    whole = mapping.exporter(found[0], size)
                    watch = weakref.ref(whole, self._view_died)
                    self._views[id(watch)] = watch, oid or b"", name
                    self._shared_views[name] = watch
                    self._used[name] = _monotonic()
                finally:
                    self._viewing.remove(name)
            if oid is not None:
                self._ops.append((oid,))
        readonly = memoryview(whole).cast("B").toreadonly()  # type: ignore[arg-type]
        return [readonly[offset : offset + length] for offset, length in offsets]

    def _mapped(self, name: str, size: int, oid: bytes | None) -> tuple[int, int]:
        """Map a segment for reading and remember that; the lock is free meanwhile, however often we hold it.

        Once, as a rule; more often when a collection in the middle of `view` or `trim` runs a finaliser that reads an
        object. To keep the lock then, and wait for the node, would be a deadlock: the thread that reads the node's
        answer may want it. Any allocation may run the garbage collector, so another thread may have had the
        lock in between: the caller reads what the lock guards again.
        """
        held = self._lock._release_save()  # type: ignore[attr-defined]
        try:
            opened = self._open(name, size, oid)
        except OSError as error:
            raise refusals.unread(error, size) from None
        finally:
            self._lock._acquire_restore(held)  # type: ignore[attr-defined]
        found = self._read_maps.setdefault(name, opened)
        if found is not opened:
            mapping.unmap(*opened)  # another thread was faster
        return found

    def _open(self, name: str, size: int, oid: bytes | None) -> tuple[int, int]:
        """Map a segment for reading, wherever its bytes are now. Only a missing file is a loss.

        Raises:
            ObjectLostError: there is no file.
            OSError: there is one, but this process cannot open or map it (descriptors, memory).
        """
        path = self.path(name)
        if places.tag_of(name) != self.tag and not name.startswith(_DISK):
            from sundog.store import copies  # only sessions of several nodes load this

            path = copies.nearest(self, name)
        with contextlib.suppress(FileNotFoundError):
            return mapping.map_file(path, size, writable=False), size
        if self.room is not None and not name.startswith(_DISK):
            with contextlib.suppress(FileNotFoundError):  # another process may have requested it before
                return mapping.map_file(self.restored_path(name), size, writable=False), size
            for tries in range(_RESTORE_TRIES):
                # Under great memory pressure the object may be spilled again before it is mapped: then read
                # it in place.
                place = self.room.restore(name, directly=tries > 2)
                if place is None:
                    break
                with contextlib.suppress(FileNotFoundError):
                    return mapping.map_file(place[0], size, writable=False, offset=place[1]), size
        raise ObjectLostError(
            f"The segment {name} of object {oid.hex() if oid else '?'} cannot be opened: "
            f"its copy was removed from {os.path.dirname(self.path(name))}"
            f"{' and was not spilled' if self.room is not None else ''}.",
            object_ref_hex=oid.hex() if oid else None,
        ) from None

    def restored_path(self, name: str) -> str:
        """Where a spilled object comes back: at its home."""
        return f"{places.shared_root(self.base_root, places.tag_of(name))}/{RESTORED}/{name}"

    def _view_died(self, watch: weakref.ref[object]) -> None:
        # By id: a weak reference hashes as what it refers to, and a ctypes array has no hash.
        entry = self._views.pop(id(watch), None)
        if entry is not None and entry[1]:
            self._ops.append(entry[1])
        if self._abandoned:
            for name in [each for each in self._abandoned if self._shared_views.get(each) is watch]:
                self._abandoned.discard(name)
                self._unmap_read(name)

    def viewed(self) -> dict[bytes, object]:
        """The objects whose bytes something in this process reads in place, each with what exports them."""
        found = [(oid, watch()) for watch, oid, _ in list(self._views.values()) if oid]
        return {oid: exporter for oid, exporter in found if exporter is not None}

    def trim(self) -> tuple[list[str], list[str], list[str], dict[str, float]]:
        """Release everything that only makes the next access faster: the store is full.

        Returns:
            Names of the segments with live views, and of those that are being written now: neither is of use to
            the node. Names of the free list, which the node removes. When each segment was read last.
        """
        with self._lock:
            live = {entry[2] for entry in list(self._views.values())}
            for name in [name for name in self._read_maps if name not in live]:
                # Checked again: a finaliser may have run in the meantime and made a view.
                known = self._shared_views.get(name)
                if name in self._viewing or (known is not None and known() is not None):
                    live.add(name)
                    continue
                self._shared_views.pop(name, None)
                found = self._read_maps.pop(name, None)
                if found is not None:
                    mapping.unmap(*found)
            writing = list(self._writing)
            for name in list(self._write_maps):
                found = self._write_maps.pop(name, None)
                if found is not None:
                    mapping.unmap(*found)
            free = list(self._free_order)
            self._free.clear()
            self._free_order.clear()
            self._free_bytes = 0
            used, self._used = self._used, {}
            return list(live), writing, free, used

    # ------------------------------------------------------------------ freeing
    def recycle(self, name: str, size: int) -> None:
        """Our segment's object is free, here and everywhere: keep the file for the next write.

        A size of 0 says that its file is gone, and that there may be readers all the same: `sundog.internal.free`.
        """
        if not size:
            self.abandon(name, remove=False)
            return
        if self.several:
            self._remove_copies(name)
        known = self._shared_views.get(name)
        if known is not None and known() is not None:
            self.abandon(name, remove=True)  # not free, but lost: a view in this process still reads it
            return
        if known is not None or name in self._read_maps:
            self._unmap_read(name)
        if size <= self._free_max and not name.startswith(_DISK):
            with self._lock:
                if self._free_bytes + size > self._free_max:
                    self._make_room(size)
                free = f"{_FREE}{self._me}-{next(self._count)}"
                if self._keep_as(name, free):
                    self._free.setdefault(size, []).append(free)
                    self._free_order[free] = size
                    self._free_bytes += size
                    return
        self.unlink(name)

    def _keep_as(self, name: str, free: str) -> bool:
        """Give a file its name on the free list, keeping the mapping we write it through; False if it is gone."""
        try:
            os.rename(f"{self.shm_root}/{name}", f"{self.shm_root}/{free}")
        except OSError:
            return False
        found = self._write_maps.pop(name, None)
        if found is not None:
            self._write_maps[free] = found
        return True

    def made_by(self, maker: bytes) -> set[str]:
        """Names of the segments, in shared memory or on disk, that another process made for objects of ours."""
        prefix = f"{self._me}-{maker.hex()}-"
        found: set[str] = set()
        roots = [(self.shm_root, prefix), (self.disk_root, _DISK + prefix)]
        if self.several:
            roots += [(root, prefix) for root in places.other_roots(self.base_root, self.shm_root)]
        for folder, start in roots:
            with contextlib.suppress(OSError):  # nothing was written to disk, or the session has ended
                found.update(name for name in os.listdir(folder) if name.startswith(start))
        return found

    def _make_room(self, size: int) -> None:
        """Remove the segments that waited longest, so that one more fits: sizes in use push out others."""
        while self._free_bytes + size > self._free_max:
            oldest, its_size = next(iter(self._free_order.items()))
            if self._free_order.pop(oldest, None) is None:
                continue  # a finaliser has just run and taken it
            self._free[its_size].remove(oldest)
            self._free_bytes -= its_size
            self.unlink(oldest)

    def forget(self, name: str) -> None:
        """An object of another process is gone from here: end our mapping of it."""
        self._unmap_read(name)

    def abandon(self, name: str, *, remove: bool) -> None:
        """A copy is given up: end our mapping of it once no view of it is left here, and `remove` what is left."""
        if remove:
            # First: a view that is made from now on finds no file, and makes no mapping.
            self._remove(name)
        with self._lock:
            known = self._shared_views.get(name)
            if name in self._viewing or (known is not None and known() is not None):
                self._abandoned.add(name)
            else:
                self._unmap_read(name)
        found = self._write_maps.pop(name, None)
        if found is not None:
            mapping.unmap(*found)

    def unlink(self, name: str) -> None:
        """Remove a segment's file and our mappings of it, but for one of which a view is left here."""
        self.abandon(name, remove=True)

    def _unmap_read(self, name: str) -> None:
        with self._lock:
            self._shared_views.pop(name, None)
            self._used.pop(name, None)
            found = self._read_maps.pop(name, None)
            if found is not None:
                mapping.unmap(*found)

    def _remove(self, name: str) -> None:
        if self.several:
            self._remove_copies(name)
        try:
            os.unlink(self.path(name))
        except FileNotFoundError:
            if self.room is not None and not name.startswith((_FREE, _DISK)):
                self.room.freed(name)  # the node has spilled it, or another program removed it
        except OSError:
            pass

    def _remove_copies(self, name: str) -> None:
        from sundog.store import copies  # only sessions of several nodes load this

        copies.remove(self, name)

    def close(self) -> None:
        """Remove what is on the free list and stop the copy thread; live views stay readable."""
        with self._lock:
            names = [name for free in self._free.values() for name in free]
            self._free.clear()
            self._free_order.clear()
            self._free_bytes = 0
        for name in names:
            self.unlink(name)
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _write_all(fd: int, data: memoryview, offset: int) -> None:
    done, size = 0, data.nbytes
    while done < size:
        done += os.pwrite(fd, data[done : done + (1 << 30)], offset + done)
