"""Folders of ended sessions: the newest few stay to be read, older ones go.

Owns the choice and the removal. A session that lives holds the lock in its folder, so one whose lock can be taken has
ended for certain. A mark beside it says the session's name: a folder without lock and mark is being made, or is another
program's, and stays, and so does what belongs to another user. Runs once in each node, a moment after its
start, one folder per turn of the node's loop.
"""

from __future__ import annotations

import contextlib
import os

from sundog.net.loop import Loop
from sundog.store import folders

_PREFIX = "session_"
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
        # The name of a session begins with its time of creation.
        for name in sorted(os.listdir(folder), reverse=True):
            path = os.path.join(folder, name)
            if name.startswith(_PREFIX) and name != own_name:
                lock = folders.lock_of_ended(path)
                if lock is not None:
                    os.close(lock)
                    found.append(path)
    return found[keep:]


def remove(path: str) -> None:
    """Remove the folder of a session that has ended; of one that has not, nothing."""
    lock = folders.lock_of_ended(path)
    if lock is not None:
        try:
            folders.remove_session(path)
        finally:
            os.close(lock)
