"""The first moment of `init()`: the node's program is started before the other modules of sundog are imported.

Importing the API takes about as long as the node takes to come up, so both happen at the same time. Owns the
program between its start and the moment when it is told which session is its own; an `init()` that does not
need it after all drops it. Imports next to nothing, for every `init()` waits for this module.

Runs in the process that starts a session: a driver, or `sundog start`.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import sys

from sundog import isolation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

SNDBUF_BYTES = 4 << 20
# The descriptor of the program's end of the socket: the first message there names the program's session, and
# the messages of its first driver follow.
SOCKET_FD = 3
# Larger copies bypass the caches. By default the C library does so only above a size (over 100 MB where many
# cores share a cache) up to which each byte written to shared memory is first read (docs/decisions/0013).
_TUNABLES = "GLIBC_TUNABLES"
_THRESHOLD = "glibc.cpu.x86_non_temporal_threshold"
_STREAMED_COPIES = f"{_THRESHOLD}={8 << 20:#x}"
_ADDRESS_NAMES = ("SUNDOG_address", "SUNDOG_ADDRESS", "RAY_address", "RAY_ADDRESS")


class NodeProgram:
    """The program of a node, on its way; it waits to be told its session."""

    __slots__ = ("pid", "sock")

    def __init__(self, pid: int, sock: _socket.socket) -> None:
        self.pid = pid
        self.sock = sock

    def tell(self, params: bytes, *locks: int) -> None:
        """Hand it its parameters, and the locks of its session: in its folder, in its shared memory.

        The parameters go in a file without a name: the user's whole environment is among them, and a name could
        also be another program's file.
        """
        with _nameless_file() as file:
            file.write(params)
            file.flush()
            files = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (file.fileno(), *locks))
            self.sock.sendmsg([b"begin"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])

    def drop(self) -> None:
        """The node that was begun is not needed: it ends when it finds its socket closed. Leaves no zombie."""
        self.sock.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass  # the user's program waits for children by itself


def _nameless_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("sundog-params", os.MFD_CLOEXEC), "wb")
    import tempfile

    return tempfile.TemporaryFile()


_begun: list[NodeProgram] = []  # at most one; a list, because pop() is atomic for all threads


def make_pair() -> tuple[_socket.socket, _socket.socket]:
    """Two connected SEQPACKET sockets with roomy buffers."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    for side in (ours, theirs):
        side.settimeout(None)  # the program may have called socket.setdefaulttimeout()
        side.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, SNDBUF_BYTES)
    return ours, theirs


def tuned(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment to start a program of ours with: its C library reads it once, at the very start."""
    hidden = isolation.hide(environ)
    given = environ.get(_TUNABLES, "")
    if _THRESHOLD in given:
        return hidden
    return {**hidden, _TUNABLES: f"{_STREAMED_COPIES}:{given}" if given else _STREAMED_COPIES}


def untuned(environ: Mapping[str, str]) -> dict[str, str | None]:
    """What to change in a program's environment so that it is the user's again, for children that are not ours."""
    changes = isolation.unhide(environ)
    given = environ.get(_TUNABLES, "")
    if given.partition(":")[0] == _STREAMED_COPIES:
        changes[_TUNABLES] = given.partition(":")[2] or None
    return changes


def begin() -> None:
    """Start the program for an `init()` that is likely to need it."""
    if not _begun and sys.executable:
        try:
            _begun.append(_start())
        except OSError:
            pass  # init() tries again, and reports the error


def take(extra: Mapping[str, str] | None = None) -> NodeProgram:
    """The program that was begun, else a new one; with `extra` variables in its environment, always a new one.

    Raises:
        OSError: no program can be started.
    """
    if extra:
        drop()
        return _start(extra)
    try:
        return _begun.pop()
    except IndexError:
        return _start()


def drop() -> None:
    """The node that was begun is not needed."""
    try:
        program = _begun.pop()
    except IndexError:
        return
    program.drop()


def is_likely(address: object, engine: object = None) -> bool:
    """Whether `init(address)` will start a session, as far as can be told from the outside."""
    if (engine or os.environ.get("SUNDOG_ENGINE") or "local") != "local":
        return False
    if address is None:
        return not any(os.environ.get(name) for name in _ADDRESS_NAMES)
    return address == "local"


def occupy_standard() -> None:
    """Have the descriptors 0, 1 and 2 lead somewhere: a program that was started without them (a daemon) must not print
    into a socket of the session, which would get one of these numbers.

    Raises:
        OSError: no descriptor is free.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open("/dev/null", os.O_RDWR)
            if opened == number:
                os.set_inheritable(number, True)
            else:
                os.close(opened)  # another thread was faster


def _start(extra: Mapping[str, str] | None = None) -> NodeProgram:
    occupy_standard()
    ours, theirs = make_pair()
    high = -1
    try:
        # A number that the target cannot collide with.
        high = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, 10)
        pid = os.posix_spawn(
            sys.executable,
            isolation.command(f"sundog.node.launch.main({isolation.wanted()!r})"),
            tuned({**os.environ, **extra} if extra else os.environ),
            file_actions=[
                # Errors before the program has a log go to the terminal.
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, 2, 1),
                (os.POSIX_SPAWN_DUP2, high, SOCKET_FD),
            ],
            setsid=True,
            setsigmask=(),  # a program may block signals; the zygote must hear of the end of its workers
        )
    except BaseException:
        ours.close()
        raise
    finally:
        if high >= 0:
            os.close(high)
        theirs.close()
    return NodeProgram(pid, ours)
