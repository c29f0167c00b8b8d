"""Questions to the driver of a job on another engine: it has no node that could be asked.

::

    command ── {"ask": "stacks"} ──► <session>/engine.sock ── the driver, which asks its cluster ──► answer, JSON

Owns the way to the driver and back. The session's folder is its user's alone, and so is the socket in it; both ends ask
the kernel which user the other is before they read. Runs in the caller's process.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sundog import trust

if TYPE_CHECKING:
    from sundog.plain import JsonObject

SOCKET = "engine.sock"
_ANSWER_S = 60.0
_PART = 1 << 16


@contextlib.contextmanager
def reach(session_path: str) -> Iterator[str]:
    """The address of the socket by an open folder: an address has room for 107 bytes only, a path may be longer.

    Raises:
        OSError: there is no such folder, or it is another user's.
    """
    folder = trust.open_folder(session_path)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)


class Unanswered(ConnectionError):
    """The driver is gone, or could not answer. The text is for the user."""


def has_desk(session_path: str) -> bool:
    """Whether the driver of a session can be asked: of one that was killed, the socket is left and no process
    listens."""
    if not os.path.exists(f"{session_path}/{SOCKET}"):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            with reach(session_path) as address:
                sock.connect(address)
        except BlockingIOError:
            return True  # others ask it now
        except OSError:
            return False
    return True


def is_elsewhere(session_path: str) -> bool:
    """Whether a session, running or ended, is of a job on another engine."""
    try:
        with open(f"{session_path}/session.json", encoding="utf-8") as file:
            return bool(json.load(file).get("engine") == "ray")
    except (OSError, ValueError):
        return False


def unfinished(session_path: str) -> list[JsonObject]:
    """The tasks of a running job on another engine that have not ended; none if no process tells."""
    if not has_desk(session_path):
        return []
    with contextlib.suppress(Unanswered):
        found: list[JsonObject] = ask(session_path, "tasks")
        return found
    return []


def ask(session_path: str, question: str, **arguments: object) -> Any:
    """The answer of a session's driver.

    Raises:
        Unanswered: there is none.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(_ANSWER_S)
        try:
            with reach(session_path) as address:
                sock.connect(address)
            trust.check_peer(sock)
            sock.sendall(json.dumps({"ask": question, **arguments}).encode() + b"\n")
            data = b"".join(iter(lambda: sock.recv(_PART), b""))
            found = json.loads(data)
        except (OSError, ValueError) as error:
            raise Unanswered(f"The driver of this session does not answer: {error}.") from None
    if "error" in found:
        raise Unanswered(f"The driver of this session could not answer: {found['error']}.")
    return found["answer"]
