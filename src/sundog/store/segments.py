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

When /dev/shm is full the segment goes to the session's folder on disk, under the same interface: slow,
not wrong. When the disk is full too the caller gets `OutOfDiskError`.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from sundog.exceptions import LocalRayletDiedError, ObjectLostError, OutOfDiskError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# (name, size of the segment, [(offset, length) of each buffer])
Location = tuple[str, int, list[tuple[int, int]]]
_ALIGN = 63
_SMALLEST_BITS = 17
_DISK = "disk-"
_FREE = "free-"
_TWO_THREADS_BYTES = 8 << 20
# A process keeps at most this part of the machine's memory in segments that hold nothing.
_FREE_SHARE = 12


def size_class(size_bytes: int) -> int:
    """The segment size for so many bytes: powers of two and the halves between, from 96 KiB."""
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

    def __getattr__(self, name: str) -> Any:
        from sundog.store import mapping as module

        global mapping
        mapping = module
        return getattr(module, name)


mapping: Any = _Lazy()


class Segments:
    """The segments that one process makes and the mappings it reads through."""

    def __init__(
        self, shm_root: str, disk_root: str, me: bytes, ops: deque[bytes | tuple[bytes, ...]]
    ) -> None:
        self.shm_root = shm_root
        self.disk_root = disk_root
        self._me = me.hex()
        self._ops = ops
        self._count = itertools.count()
        self._lock = threading.Lock()
        self._free: dict[int, list[str]] = {}
        self._free_bytes = 0
        self._free_order: dict[str, int] = {}  # name -> size, the oldest first
        self._free_max = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _FREE_SHARE
        self._write_maps: dict[str, tuple[int, int]] = {}
        self._read_maps: dict[str, tuple[int, int]] = {}
        self._views: dict[int, tuple[weakref.ref[object], bytes]] = {}
        self._shared_views: dict[str, weakref.ref[object]] = {}
        self._abandoned: set[str] = set()
        self._pool: ThreadPoolExecutor | None = None
        self.made_bytes = 0

    def path(self, name: str) -> str:
        """Where a segment's file is."""
        return f"{self.disk_root if name.startswith(_DISK) else self.shm_root}/{name}"

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
        prefix = f"{owner.hex() if owner else self._me}-{self._me}-"
        name = self._take_free(size, prefix)
        if name is not None:
            address = self._writable(name, size)
            for (offset, length), buffer in zip(offsets, buffers, strict=True):
                self._copy_warm(address + offset, length, buffer)
            return name, size, offsets
        return self._write_cold(prefix, size, offsets, buffers), size, offsets

    def _take_free(self, size: int, prefix: str) -> str | None:
        with self._lock:
            names = self._free.get(size)
            if not names:
                return None
            self._free_bytes -= size
            free = names.pop()
            del self._free_order[free]
            name = f"{prefix}{next(self._count)}"
            return name if self._rename(free, name) else None

    def _rename(self, old: str, new: str) -> bool:
        """Give a file another name, keeping the mapping we write it through; False if it is gone."""
        try:
            os.rename(self.path(old), self.path(new))
        except OSError:
            return False
        found = self._write_maps.pop(old, None)
        if found is not None:
            self._write_maps[new] = found
        return True

    def _writable(self, name: str, size: int) -> int:
        found = self._write_maps.get(name)
        if found is None:
            found = mapping.map_file(self.path(name), size, writable=True), size
            self._write_maps[name] = found
        return found[0]

    def _copy_warm(self, address: int, length: int, buffer: memoryview) -> None:
        if length < _TWO_THREADS_BYTES:
            mapping.copy_in(address, buffer)
            return
        flat = buffer.cast("B")
        half = length // 2
        future = self._threads().submit(mapping.copy_in, address, flat[:half])
        mapping.copy_in(address + half, flat[half:])
        future.result()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(1, thread_name_prefix="sundog-copy")
        return self._pool

    def _write_cold(
        self, prefix: str, size: int, offsets: list[tuple[int, int]], buffers: list[memoryview]
    ) -> str:
        name = f"{prefix}{next(self._count)}"
        try:
            self._write_file(self.path(name), size, offsets, buffers)
        except OSError as error:
            self._remove(name)
            if error.errno == errno.ENOENT and not os.path.isdir(self.shm_root):
                raise LocalRayletDiedError(
                    f"The session's shared memory ({self.shm_root}) is gone: its node was killed, or the session has "
                    "ended. Call sundog.shutdown() and sundog.init() to start anew."
                ) from None
            if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EDQUOT):
                raise
            name = _DISK + name
            try:
                os.makedirs(self.disk_root, exist_ok=True)
                self._write_file(self.path(name), size, offsets, buffers)
            except OSError as disk_error:
                self._remove(name)
                raise OutOfDiskError(
                    f"An object of {size:,} bytes fits neither in shared memory ({self.shm_root}: "
                    f"{error.strerror}) nor on disk ({self.disk_root}: {disk_error.strerror}). Free refs "
                    "you no longer need, or give the session a larger folder with init(_temp_dir=…).",
                    size_bytes=size,
                    path=self.disk_root,
                ) from None
        self.made_bytes += size
        return name

    def _write_file(
        self, path: str, size: int, offsets: list[tuple[int, int]], buffers: list[memoryview]
    ) -> None:
        # write() into a new file takes twice the speed of faulting its pages in through a mapping, and
        # a full disk is an error here instead of a SIGBUS there.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(fd, size)
            for (offset, length), buffer in zip(offsets, buffers, strict=True):
                flat = buffer.cast("B") if buffer.format != "B" or buffer.ndim != 1 else buffer
                if length < _TWO_THREADS_BYTES:
                    _write_all(fd, flat, offset)
                    continue
                half = (length // 2) & ~4095
                future = self._threads().submit(_write_all, fd, flat[:half], offset)
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
        """
        name, size, offsets = location
        known = self._shared_views.get(name)
        whole = known() if known is not None else None
        if whole is None:
            found = self._read_maps.get(name)
            if found is None:
                try:
                    found = mapping.map_file(self.path(name), size, writable=False), size
                except OSError as error:
                    raise ObjectLostError(
                        f"The segment {name} of object {oid.hex() if oid else '?'} cannot be opened: "
                        f"{error.strerror}. Its copy was removed from {os.path.dirname(self.path(name))}.",
                        object_ref_hex=oid.hex() if oid else None,
                    ) from None
                self._read_maps[name] = found
            whole = mapping.exporter(found[0], size)
            if oid is not None:
                self._ops.append((oid,))
            watch = weakref.ref(whole, self._view_died)
            self._views[id(watch)] = watch, oid or b""
            self._shared_views[name] = watch
        readonly = memoryview(whole).cast("B").toreadonly()  # type: ignore[arg-type]
        return [readonly[offset : offset + length] for offset, length in offsets]

    def _view_died(self, watch: weakref.ref[object]) -> None:
        # By id: a weak reference hashes as what it refers to, and a ctypes array has no hash.
        entry = self._views.pop(id(watch), None)
        if entry is not None and entry[1]:
            self._ops.append(entry[1])
        if self._abandoned:
            for name in [each for each in self._abandoned if self._shared_views.get(each) is watch]:
                self._abandoned.discard(name)
                self._unmap_read(name)

    # ------------------------------------------------------------------ freeing
    def recycle(self, name: str, size: int) -> None:
        """Our segment's object is free, here and everywhere: keep the file for the next write."""
        self._unmap_read(name)
        if size <= self._free_max and not name.startswith(_DISK):
            with self._lock:
                self._make_room(size)
                free = f"{_FREE}{self._me}-{next(self._count)}"
                if self._rename(name, free):
                    self._free.setdefault(size, []).append(free)
                    self._free_order[free] = size
                    self._free_bytes += size
                    return
        self.unlink(name)

    def made_by(self, maker: bytes) -> set[str]:
        """Names of the segments in shared memory that another process made for objects of ours."""
        prefix = f"{self._me}-{maker.hex()}-"
        try:
            return {name for name in os.listdir(self.shm_root) if name.startswith(prefix)}
        except OSError:
            return set()  # the session has ended

    def _make_room(self, size: int) -> None:
        """Remove the segments that waited longest, so that one more fits: sizes in use push out others."""
        while self._free_bytes + size > self._free_max:
            oldest, its_size = next(iter(self._free_order.items()))
            del self._free_order[oldest]
            self._free[its_size].remove(oldest)
            self._free_bytes -= its_size
            self.unlink(oldest)

    def forget(self, name: str) -> None:
        """An object of another process is gone from here: end our mapping of it."""
        self._unmap_read(name)

    def abandon(self, name: str, *, remove: bool) -> None:
        """A copy is given up: end our mapping of it once nobody here looks at it, and `remove` what is left."""
        known = self._shared_views.get(name)
        if known is None or known() is None:
            self._unmap_read(name)
        else:
            self._abandoned.add(name)
        if remove:
            self._remove(name)

    def unlink(self, name: str) -> None:
        """Remove a segment's file and our mappings of it."""
        self._unmap_read(name)
        found = self._write_maps.pop(name, None)
        if found is not None:
            mapping.unmap(*found)
        self._remove(name)

    def _unmap_read(self, name: str) -> None:
        self._shared_views.pop(name, None)
        found = self._read_maps.pop(name, None)
        if found is not None:
            mapping.unmap(*found)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.path(name))

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
