"""SEQPACKET sockets: one packet is one pickled message, so there is no framing and no partial write.

Owns how a message becomes a packet, how descriptors travel with it, and what happens to a message
that is larger than a packet can be: it goes through a file of the session in shared memory, and the packet names it.
When shared memory has no room the file goes to the session's disk, and when that has none the message stays in memory
of the sender's (a memfd, for which no file system needs room), where the receiver reads it. What the kernel refuses for
the moment (`PASSING`) is no end of a connection: it is sent again. Used by every process.

Guarantee: a packet arrives whole or not at all. Assumption: both ends are of one session and one
user (the sockets live in a 0700 folder or are inherited), so unpickling is safe.
"""

from __future__ import annotations

import array
import contextlib
import errno
import itertools
import mmap
import os
import pickle
import threading
from typing import Any

from sundog.early import SNDBUF_BYTES
from sundog.early import make_pair as make_pair
from sundog.net import sockets as socket
from sundog.net.spare import NO_DESCRIPTOR, spare
from sundog.system.descriptors import apart

# The kernel caps SO_SNDBUF at net.core.wmem_max (208 KiB unless raised) and doubles what it grants; a
# packet must fit the buffer whole.
RECV_BYTES = 1 << 20
MESSAGE_MAX_BYTES = 150 << 10
FDS_MAX = 16
_FD_SPACE = socket.CMSG_SPACE(FDS_MAX * 4)
_BIG = "\0big"
# The errors of a full file system.
FULL = (errno.ENOSPC, errno.ENOMEM, errno.EDQUOT)
# A file cannot be made there now, and may be made elsewhere or later.
_ELSEWHERE = (*FULL, *NO_DESCRIPTOR, errno.EROFS)
# The kernel has no memory for a packet now, or this user's sockets have too many descriptors on their way.
PASSING = (errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS)
_PROC = "/proc/"
_files = itertools.count()


def pair_if_free() -> tuple[socket.socket, socket.socket] | None:
    """Two connected sockets; None if this process, or the machine, has no descriptor free for them now."""
    try:
        return make_pair()
    except OSError as error:
        if error.errno not in NO_DESCRIPTOR:
            raise
        return None


def receive_buffer() -> memoryview:
    """Room for the largest packet, of which only what packets fill takes memory.

    A bytearray is written to when it is made, and every worker has two of these. Private: they are made before workers
    are forked, and what one process receives is not for the others.
    """
    return memoryview(mmap.mmap(-1, RECV_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def encode(message: object, shm_root: str) -> bytes:
    """Pickle a message; one that is too large is written to a file under `shm_root` and named instead."""
    data = pickle.dumps(message, 5)
    if len(data) <= MESSAGE_MAX_BYTES:
        return data
    return pickle.dumps((_BIG, write_big(data, shm_root)), 5)


class NoRoom(BlockingIOError):
    """A message cannot be written anywhere now, or not be sent; that may pass, so try again after a moment."""


def not_now(error: OSError) -> NoRoom:
    """What to raise where the kernel refuses a packet for the moment (`PASSING`)."""
    return NoRoom(error.errno, f"The system takes no message now: {error.strerror}")


def write_big(data: bytes, shm_root: str) -> str:
    """Put an oversized packet where the receiver can read it; the receiver removes it.

    Raises:
        NoRoom: there is no room in shared memory and on the disk, and no memory or descriptor for it either.
    """
    name = f"packet-{os.getpid()}-{next(_files)}"
    try:
        return _write_file(f"{shm_root}/{name}", data)
    except OSError as error:
        if error.errno not in _ELSEWHERE:
            raise
    with contextlib.suppress(OSError):
        folder = f"{os.readlink(f'{shm_root}/.session')}/spilled_objects"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return _write_file(f"{folder}/{name}", data)
    return _write_memory(data)


def _write_file(path: str, data: bytes) -> str:
    try:
        with spare.opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            _write_all(fd, data)
    except OSError:
        _unlink(path)  # an incomplete file is useless, and memory is short
        raise
    return path


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


_unread: list[int] = []  # messages written to memory of this process; a reader truncates what it has read
_unread_lock = threading.Lock()


def _write_memory(data: bytes) -> str:
    with _unread_lock:
        for fd in list(_unread):
            if not os.fstat(fd).st_size:
                _unread.remove(fd)
                os.close(fd)
    fd = -1
    try:
        fd = os.memfd_create("sundog-packet")
        _write_all(fd, data)
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise NoRoom(
            error.errno, f"There is no room for a message of {len(data):,} bytes: {error.strerror}"
        ) from None
    with _unread_lock:
        _unread.append(fd)
    return f"{_PROC}{os.getpid()}/fd/{fd}"


def read_big(path: str, lost: object = None) -> object:
    """Read and remove a packet written by `write_big`; `lost` if it was in the memory of a process that is dead."""
    if path.startswith(_PROC):
        try:
            with spare.opened(path, os.O_RDWR) as fd, open(fd, "r+b", closefd=False) as file:
                message = pickle.load(file)
                file.truncate(0)
                return message
        except (FileNotFoundError, ProcessLookupError):
            return lost
    try:
        with spare.opened(path, os.O_RDONLY) as fd, open(fd, "rb", closefd=False) as file:
            return pickle.load(file)
    finally:
        _unlink(path)


def discard(data: bytes) -> None:
    """Remove what an oversized packet, as `encode` made it, refers to: it was not sent."""
    _unlink(pickle.loads(data)[1])


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        if path.startswith(_PROC):
            os.truncate(path, 0)
        else:
            os.unlink(path)


def decode(data: bytes | memoryview) -> Any:
    """The message of a packet; None if it was in the memory of a process that is dead."""
    message = pickle.loads(data)
    if type(message) is tuple and len(message) == 2 and message[0] == _BIG:
        return read_big(message[1])
    return message


class Connection:
    """A control connection: messages with descriptors, in both directions.

    Sending is blocking and safe from several threads (one packet is one system call); receiving is for
    one reader at a time and never blocks.
    """

    __slots__ = ("_shm_root", "sock")

    def __init__(self, sock: socket.socket, shm_root: str) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SNDBUF_BYTES)
        self.sock = sock
        self._shm_root = shm_root

    def stand_apart(self) -> None:
        """Take a number that files of the program do not get, should the program close this socket."""
        self.sock = socket.socket(fileno=apart(self.sock.detach()))

    def fileno(self) -> int:
        """The descriptor, for epoll."""
        return self.sock.fileno()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a message, or for the end of the connection; whether one of them came in time."""
        import select

        poller = select.poll()  # not select(), which is limited to descriptors below 1,024
        poller.register(self.sock.fileno(), select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))

    def send(self, message: tuple[object, ...], fds: tuple[int, ...] = (), flags: int = 0) -> None:
        """Send one message. Raises OSError when the other side is gone (BlockingIOError if so asked)."""
        data = pickle.dumps(tuple(message), 5)  # a row is sent as the tuple that it is
        if len(data) > MESSAGE_MAX_BYTES:
            self._send_big(data, fds, flags)
        else:
            self._send(data, fds, flags)

    def _send_big(self, data: bytes, fds: tuple[int, ...], flags: int) -> None:
        path = write_big(data, self._shm_root)
        try:
            self._send(pickle.dumps((_BIG, path), 5), fds, flags)
        except OSError:
            _unlink(path)  # no receiver knows of it; the next attempt writes another file
            raise

    def _send(self, data: bytes, fds: tuple[int, ...], flags: int) -> None:
        try:
            if fds:
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                self.sock.sendmsg([data], ancillary, flags)
            else:
                self.sock.send(data, flags)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            raise not_now(error) from None

    def receive(self) -> tuple[tuple[object, ...], list[int]] | None:
        """The next message and its descriptors; None when the other side is gone.

        Raises:
            BlockingIOError: nothing is there now.
        """
        try:
            data, ancillary, _, _ = self.sock.recvmsg(
                RECV_BYTES, _FD_SPACE, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            # The other process died with unread messages of this one. The kernel reports that once, before
            # the data that the process had sent, which can still be read.
            return self.receive()
        except ConnectionError:
            return None
        fds: list[int] = []
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(payload[: len(payload) - len(payload) % 4])
                fds.extend(found)
        if not data:
            for fd in fds:
                os.close(fd)
            return None
        message = decode(data)
        if message is None:  # the message was in the memory of a process that is dead now
            for fd in fds:
                os.close(fd)
            return self.receive()
        return message, fds

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
