"""The socket between a paused task and the terminal at its prompt: rows of JSON, one a line.

::

    worker: Desk ── <session>/debug/<pause id>.sock ── Channel: `sundog debug`
        ask(text, prompt) ──►        ◄── line(text)          one line typed at the prompt; end: true for Ctrl-D,
                                                             dropped: true for Ctrl-C in a statement of several lines
        running ──►                  ◄── interrupt           Ctrl-C while what was typed is worked on
        completions(found) ──►       ◄── complete(…)         TAB was pressed
        show(text) ──►               ◄── debugpy             hand the task over to debugpy
        port(port) ──►
        end(text) ──►

Owns the address and the check of each client (only the user whose session it is: the folder is 0700, and both ends look
at the other's credentials before a byte is read), and the framing. Refuses pickles: what arrives is text. One client at
a time; one that vanishes makes room for the next. Runs in the thread of the paused task, and in the command's.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from collections import deque

from sundog import trust
from sundog.plain import JsonObject

_CHUNK_BYTES = 1 << 16
_LINE_MAX_BYTES = 64 << 20

Message = JsonObject


class DebugChannel:
    """One end of a connection."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(None)  # the program may have called socket.setdefaulttimeout()
        self.sock = sock
        self._bytes = b""
        self._kept: deque[Message] = deque()  # came before an interrupt that was looked for

    def send(self, kind: str, **fields: object) -> None:
        """Raises: OSError: the other end is gone."""
        data = json.dumps({"kind": kind, **fields}, default=str)
        self.sock.sendall(data.encode("utf-8", "backslashreplace") + b"\n")

    def receive(self) -> Message | None:
        """The next message; None once the other end is gone."""
        if self._kept:
            return self._kept.popleft()
        while b"\n" not in self._bytes:
            try:
                data = self.sock.recv(_CHUNK_BYTES)
            except OSError:
                return None
            if not data or len(self._bytes) > _LINE_MAX_BYTES:
                return None
            self._bytes += data
        return self._next()

    def _next(self) -> Message | None:
        line, _, self._bytes = self._bytes.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            return None
        return message if isinstance(message, dict) else None

    def await_message(self) -> None:
        """Wait until `receive` has something to return. Consumes nothing, so a signal may end the wait."""
        if not self._kept and b"\n" not in self._bytes:
            poll = select.poll()
            poll.register(self.sock, select.POLLIN)
            poll.poll()

    def is_open(self) -> bool:
        """Whether the other end is still there."""
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def interrupted(self) -> bool:
        """Whether an interrupt has come; does not wait. Messages before it are kept for `receive`."""
        with contextlib.suppress(
            OSError
        ):  # nothing has come; an end of the other side is for `receive` to notice
            self._bytes += self.sock.recv(_CHUNK_BYTES, socket.MSG_DONTWAIT)
        while b"\n" in self._bytes:
            message = self._next()
            if message is None:
                return False
            if message.get("kind") == "interrupt":
                return True
            self._kept.append(message)
        return False

    def close(self) -> None:
        """Hang up."""
        self.sock.close()


def listen(session_path: str, name: str) -> socket.socket:
    """A socket in the session's folder that only this user can connect to.

    Raises:
        OSError: the folder is not this user's alone, or the disk is full.
    """
    path = f"{session_path}/debug"
    trust.make_folder(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.settimeout(None)  # the program may have called socket.setdefaulttimeout()
    folder = trust.open_folder(path)
    try:
        # By the descriptor: a socket address has room for 107 bytes only.
        listener.bind(f"/proc/self/fd/{folder}/{name}.sock")
        listener.listen(4)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


def accept(listener: socket.socket) -> tuple[DebugChannel, int]:
    """Wait for a client of this user; others are hung up on. Returns its channel and its pid."""
    while True:
        sock, _ = listener.accept()
        try:
            pid = trust.check_peer(sock)
        except OSError:
            sock.close()
            continue
        return DebugChannel(sock), pid


def connect(session_path: str, name: str) -> DebugChannel:
    """Connect to a paused task.

    Raises:
        OSError: it is not paused any more, or it is another user's.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = -1
    try:
        folder = trust.open_folder(f"{session_path}/debug")
        sock.connect(f"/proc/self/fd/{folder}/{name}.sock")
        trust.check_peer(sock)
    except BaseException:
        sock.close()
        raise
    finally:
        if folder >= 0:
            os.close(folder)
    return DebugChannel(sock)


def remove(session_path: str, name: str) -> None:
    """Take a paused task's address away; it may be gone."""
    with contextlib.suppress(OSError):
        os.unlink(f"{session_path}/debug/{name}.sock")
