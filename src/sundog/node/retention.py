"""Folders of ended sessions: the newest few stay to be read, older ones go.

Owns the choice and the removal. A session that lives holds the lock in its folder, so one whose lock can be
taken has ended for certain; a folder without a lock, or with one that is a moment old, is being made, and
stays. Runs once in each node, a moment after its start, one folder per turn of the node's loop.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from sundog.net.loop import Loop
from sundog.node.sessions import remove_folder
from sundog.store.folders import remove_folders

_PREFIX = "session_"
_NEW_S = 10.0
_FIRST_S = 1.0
_PAUSE_S = 0.05


def remove_in_turn(loop: Loop, own_path: str, keep: int) -> None:
    """Remove old folders beside ours from a running loop, with a pause after each."""

    def begin() -> None:
        _one_by_one(loop, surplus(own_path, keep))

    loop.after(_FIRST_S, begin)


def _one_by_one(loop: Loop, paths: list[str]) -> None:
    if paths:
        remove(paths[0])
        loop.after(_PAUSE_S, lambda: _one_by_one(loop, paths[1:]))


def surplus(own_path: str, keep: int) -> list[str]:
    """The folders of ended sessions beside ours, but for the newest `keep` of them.

    Args:
        own_path: The folder of the session that asks: not counted.
        keep: How many ended ones stay.
    """
    folder, own_name = os.path.split(own_path)
    found: list[str] = []
    with contextlib.suppress(OSError):
        # A name begins with the moment its session was made.
        for name in sorted(os.listdir(folder), reverse=True):
            path = os.path.join(folder, name)
            # `session_latest` is a link to one of them.
            if name.startswith(_PREFIX) and name != own_name and not os.path.islink(path):
                lock = _lock_of_ended(path)
                if lock is not None:
                    os.close(lock)
                    found.append(path)
    return found[keep:]


def remove(path: str) -> None:
    """Remove the folder of a session that has ended; of one that has not, nothing."""
    lock = _lock_of_ended(path)
    if lock is not None:
        try:
            remove_folders(path)  # if its driver was killed before there was a node, nobody has
            remove_folder(path)
        finally:
            os.close(lock)


def _lock_of_ended(path: str) -> int | None:
    """The lock of a session that has ended, taken; None if it lives, or if that is not certain."""
    try:
        lock = os.open(f"{path}/lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if time.time() - os.fstat(lock).st_mtime > _NEW_S:
            return lock
    except OSError:
        pass
    os.close(lock)
    return None
