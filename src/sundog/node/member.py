"""A node of a session other than the head: a process whose life is the life of the node.

::

    head ◄── join (resources, labels, and the socket of its zygote) ── member
    head ── fork requests ──► the member's zygote ──fork──► workers of this node
    head ── leave ──► member                    a drained node, or the end of the session

The head decides everything: leases, actors, room in this node's store. The member owns what must be lost together: the
pipe by whose closing the kernel ends the node's workers, the zygote, the folder in shared memory with its lock, and the
folder of spilled objects. So `kill -9` of a member is the loss of a node. A member ends with its head and with its
zygote.

A program of its own, started through `node/launch.py`; one thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

from sundog import titles
from sundog.engines import sessions
from sundog.net.packets import Connection
from sundog.store import folders, places
from sundog.system.orphans import kill_children
from sundog.wire import members, versions
from sundog.wire.row import Table, on

if TYPE_CHECKING:
    from sundog.wire.dicts import NodeParams


def run(params: NodeParams, zygote: tuple[int, int], lifeline_write: int) -> None:
    """Be a member until the node is to end. `lifeline_write` stays open until then: its closing ends the workers."""
    with contextlib.suppress(OSError):
        os.setsid()
    zygote_pid, zygote_fd = zygote
    wake = _watch_signals()
    reason = "it never joined"
    connection: Connection | None = None
    try:
        connection = _join(params, zygote_pid, zygote_fd)
        titles.begin("node")
        reason = _stay(connection, wake, zygote_pid)
    except ConnectionError as error:
        reason = str(error)
    finally:
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} this node ends: {reason}", flush=True)
        if connection is not None:
            connection.close()
        _clean_up(params, lifeline_write)


def _watch_signals() -> int:
    """A descriptor that becomes readable with every signal."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return read


def _join(params: NodeParams, zygote_pid: int, zygote_fd: int) -> Connection:
    """Tell the head the id and resources of this node, and hand it our zygote.

    Raises:
        ConnectionError: the head is gone, or refuses.
    """
    session = params["session"]
    info = sessions.read_session(session["path"])
    if info is None:
        raise ConnectionError(f"the session {session['name']} is not running any more")
    connection = sessions.connect(info)
    joining = members.Join(
        node_id=bytes.fromhex(params["node_id"]),
        pid=os.getpid(),
        zygote_pid=zygote_pid,
        resources=params["resources"],
        labels=params["labels"],
        name=params["node_name"],
        versions=versions.own(),
    )
    connection.send(joining, (zygote_fd,))
    os.close(zygote_fd)
    return connection


def _stay(connection: Connection, wake: int, zygote_pid: int) -> str:
    """Wait for the end of this node; returns why it ends."""
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    poller.register(wake, select.POLLIN)
    reasons: list[str] = []
    table = Table(on(members.Leave, lambda message: reasons.append(message.reason)))
    while True:
        for fd, _ in poller.poll():
            if fd == wake:
                numbers = _read_signals(wake)
                if signal.SIGTERM in numbers:
                    return "SIGTERM"
                if not _reap(zygote_pid):
                    return "its zygote is gone, so there can be no workers"
                continue
            try:
                received = connection.receive()
            except BlockingIOError:
                continue
            except OSError:
                received = None
            if received is None:
                return "the head of the session is gone"
            table.handle(received[0])
            if reasons:
                return reasons[0]


def _read_signals(wake: int) -> bytes:
    try:
        return os.read(wake, 4096)
    except BlockingIOError:
        return b""


def _reap(zygote_pid: int) -> bool:
    """Collect what ended below us; whether the zygote still lives."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == zygote_pid:
                return False
            if pid == 0:
                return True
    return False


def _clean_up(params: NodeParams, lifeline_write: int) -> None:
    session = params["session"]
    os.close(lifeline_write)
    kill_children(os.getpid())
    folders.remove_shared(session["shm_root"])
    folders.remove_node_folder(session["spill_folders"][0], places.base_of(session["shm_root"])[1])
    sys.stdout.flush()
