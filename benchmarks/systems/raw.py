"""The raw limit: what the kernel and a memory copy cost when nothing else is done.

```
 host ── SOCK_SEQPACKET, one packet per call ──► echo process
      ◄── the same packet back ─────────────────
 put: copy into a file under /dev/shm, recycled with its mapping once its handle is gone
```
Runs in the host, plus one forked echo process. A call carries the bytes of a small task (two ids and empty
arguments), not pickled anew each time. Blocking reads, no batching, no spinning: a system that batches or
spins may beat it, and then should.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
from collections.abc import Callable
from typing import Any, ClassVar

from benchmarks.systems import Submitter, System

PAYLOAD = pickle.dumps((bytes(16), bytes(16), (), {}))
_SHM = "/dev/shm"


def _echo(peer: socket.socket) -> None:
    recv, send = peer.recv, peer.send
    while packet := recv(65536):
        send(packet)


class Segment:
    """A shared mapping of one size; returns itself to its free list when the handle is dropped."""

    __slots__ = ("free", "mapping")

    def __init__(self, mapping: mmap.mmap, free: list[mmap.mmap]) -> None:
        self.mapping = mapping
        self.free = free

    def __del__(self) -> None:
        self.free.append(self.mapping)


class Raw(System):
    name = "raw"
    features: ClassVar[frozenset[str]] = frozenset({"tasks", "actors", "async_actors", "puts_large", "echo"})

    def __init__(self) -> None:
        self._child = 0
        self._sent = 0
        self._received = 0
        self._free: dict[int, list[mmap.mmap]] = {}

    def load(self) -> None:
        pass

    def start(self) -> None:
        self._sock, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._child = os.fork()
        if self._child == 0:
            self._sock.close()
            try:
                _echo(peer)
            finally:
                os._exit(0)
        peer.close()

    def stop(self) -> None:
        self._sock.close()
        os.waitpid(self._child, 0)

    def pin(self, cores: set[int], echo_cores: set[int]) -> None:
        """Choose where the two processes run; where the kernel puts them decides most of an echo's time."""
        os.sched_setaffinity(0, cores)
        os.sched_setaffinity(self._child, echo_cores)

    def _send(self, *args: object) -> int:
        send = self._sock.send
        while True:
            try:
                send(PAYLOAD, socket.MSG_DONTWAIT)
            except BlockingIOError:
                # Both buffers are full: the echo process waits for us to read before it can read us.
                self._sock.recv(65536)
                self._received += 1
            else:
                self._sent += 1
                return self._sent

    def remote(self, function: Callable[..., object]) -> Submitter:
        return Submitter(self._send)

    def actor(self, cls: type, **options: object) -> Submitter:
        return Submitter(lambda *args: _Handle(self._send))

    def kill(self, handle: Any) -> None:
        pass

    def get(self, refs: Any) -> Any:
        last = refs[-1] if isinstance(refs, list) else refs
        recv = self._sock.recv
        while self._received < last:
            recv(65536)
            self._received += 1
        return last

    def put(self, value: Any) -> Segment:
        source = memoryview(value).cast("B")
        free = self._free.setdefault(source.nbytes, [])
        if free:
            mapping = free.pop()
            mapping[:] = source
        else:
            mapping = _new_mapping(source)
        return Segment(mapping, free)


def _new_mapping(source: memoryview) -> mmap.mmap:
    """Cold: write the file first; faulting fresh pages in through a mapping costs about twice as much."""
    path = os.path.join(_SHM, f"bench-{os.getpid()}-{os.urandom(4).hex()}")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.unlink(path)
        written = 0
        while written < source.nbytes:
            written += os.pwrite(fd, source[written:], written)
        return mmap.mmap(fd, source.nbytes)
    finally:
        os.close(fd)


class _Handle:
    __slots__ = ("small_value", "small_value_arg")

    def __init__(self, send: Callable[..., int]) -> None:
        self.small_value = Submitter(send)
        self.small_value_arg = Submitter(send)


SYSTEMS = {"raw": Raw}
