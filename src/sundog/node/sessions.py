"""A session on disk: what it publishes, and the sweep of stale ones.

A session holds two locks for life, one in its folder and one in its shared memory (open file descriptions that the
node inherits; `store/folders.py`), so "stale" is certain: a process that gets the lock knows that no node lives there.
Used by the node; the driver's side is in `sundog.engines.sessions`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import TYPE_CHECKING

from sundog import trust
from sundog.net import sockets as socket
from sundog.store import folders, places
from sundog.store.segments import belongs_to

if TYPE_CHECKING:
    from sundog.wire.dicts import SessionFacts

# `engines.sessions.make_session` gives these names; other folders of sessions in the same place have other
# names.
_SHARED = re.compile(r"sundog-\d+-[0-9a-f]{8}(\.[0-9a-f]{8})?(\.lock)?")


def bind(listener: socket.socket, path: str) -> None:
    """Listen on `<path>/node.sock`, however long the path is (an address has room for 107 bytes)."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/node.sock")
    finally:
        os.close(folder)


def publish(session: SessionFacts, resources: dict[str, float], *, persistent: bool) -> None:
    """Say that the session can be joined."""
    info = {
        "name": session["name"],
        "path": session["path"],
        "shm_root": session["shm_root"],
        "node_pid": session["node_pid"],
        "node_id": session["node_id"].hex(),
        "resources": resources,
        "persistent": persistent,
    }
    temporary = f"{session['path']}/session.json.new"
    try:
        with open(trust.create_file(temporary), "w", encoding="utf-8") as file:
            json.dump(info, file)
        # Before the file gets its name: a program that waits for the file may look for the session by a link
        # at once.
        _link(session["path"], ("session_latest", *([folders.STARTED] if persistent else [])))
        os.replace(temporary, f"{session['path']}/session.json")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _link(path: str, names: tuple[str, ...]) -> None:
    """Let links beside a session lead to it; there may be no room for them."""
    home, session = os.path.split(path)
    for each in names:
        with contextlib.suppress(OSError):
            link = os.path.join(home, f"{each}.{os.getpid()}")
            os.symlink(session, link)
            os.replace(link, os.path.join(home, each))


def sweep(session: SessionFacts) -> None:
    """Remove the shared memory of this user's sessions whose node is gone, and what they spilled."""
    folder = os.path.dirname(session["shm_root"])
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if _SHARED.fullmatch(name):
                _sweep_one(f"{folder}/{name}")


def _sweep_one(shm_root: str) -> None:
    path = folders.sweep_shared(shm_root)
    lock = folders.lock_of_ended(path) if path else None
    if lock is not None:
        try:
            folders.remove_folders(path)
            folders.withdraw(path)
        finally:
            os.close(lock)


def remove_segments(session: SessionFacts, process: bytes) -> None:
    """Remove the shared memory that ends with a process."""
    base, disk = session["shm_root"], session["spill_folders"][0]
    tags = [places.base_of(root)[1] for root in places.other_roots(base, base)]
    others = [
        folder for tag in tags for folder in (places.shared_root(base, tag), places.disk_root(disk, tag))
    ]
    for folder in (base, disk, *others):
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if belongs_to(name, process):
                    with contextlib.suppress(OSError):
                        os.unlink(f"{folder}/{name}")
