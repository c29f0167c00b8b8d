"""A session on disk: its folders, its lock, what it publishes, and the sweep of stale ones.

A session holds a lock on `<path>/lock` for life (an open file description that the node inherits), so
"stale" is certain: whoever can take the lock knows that no node lives there. Used by the node; the
driver's side is in `sundog.engines.sessions`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from typing import Any

from sundog.net import sockets as socket
from sundog.store.folders import remove_folders
from sundog.store.segments import belongs_to

_NEW_S = 60.0


def bind(listener: socket.socket, path: str) -> None:
    """Listen on `<path>/node.sock`, however long the path is (an address has room for 107 bytes)."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/node.sock")
    finally:
        os.close(folder)


def publish(session: dict[str, Any], resources: dict[str, float]) -> None:
    """Say that the session can be joined."""
    info = {
        "name": session["name"],
        "path": session["path"],
        "shm_root": session["shm_root"],
        "node_pid": session["node_pid"],
        "node_id": session["node_id"].hex(),
        "resources": resources,
    }
    temporary = f"{session['path']}/session.json.new"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(info, file)
        os.replace(temporary, f"{session['path']}/session.json")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    latest = os.path.join(os.path.dirname(session["path"]), "session_latest")
    with contextlib.suppress(OSError):
        link = f"{latest}.{os.getpid()}"
        os.symlink(os.path.basename(session["path"]), link)
        os.replace(link, latest)


def withdraw(session: dict[str, Any]) -> None:
    """The session ends: nobody can join it any more."""
    for name in ("node.sock", "session.json"):
        with contextlib.suppress(OSError):
            os.unlink(f"{session['path']}/{name}")


def remove_folder(path: str) -> None:
    """Remove a folder with all that is in it, if it is there."""
    import shutil  # with four compressors in tow, which would come before the first task

    shutil.rmtree(path, ignore_errors=True)


def sweep(session: dict[str, Any]) -> None:
    """Remove the shared memory of sessions whose node is gone."""
    folder = os.path.dirname(session["shm_root"])
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith("sundog-"):
                _sweep_one(f"{folder}/{name}")


def _sweep_one(shm_root: str) -> None:
    try:
        path = os.readlink(f"{shm_root}/.session")
        if not os.path.isdir(path):
            # The session's folder was removed, so nobody can hold its lock; a new one is a moment old at most.
            if time.time() - os.stat(shm_root).st_mtime > _NEW_S:
                remove_folder(shm_root)
            return
        lock = os.open(f"{path}/lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # not ours to judge: no mark, or of another user
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        remove_folder(shm_root)
        remove_folders(path)
        withdraw({"path": path})
    finally:
        os.close(lock)


def remove_segments(session: dict[str, Any], process: bytes) -> None:
    """Remove the shared memory that ends with a process."""
    for folder in (session["shm_root"], session["spill_folders"][0]):
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if belongs_to(name, process):
                    with contextlib.suppress(OSError):
                        os.unlink(f"{folder}/{name}")


def kill_children(pid: int) -> None:
    """SIGKILL every descendant: workers, what they started, orphans that came to us as subreaper."""
    for child in descendants(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:
            for child in descendants(pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Pids below a process, children before grandchildren."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{current}/task"):
                with open(f"/proc/{current}/task/{thread}/children", encoding="ascii") as file:
                    children = [int(each) for each in file.read().split()]
                found.extend(children)
                waiting.extend(children)
    return found
