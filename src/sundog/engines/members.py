"""Nodes that join a running session of this machine: started, watched until they are there, ended.

Owns the start of a member's process (`node/member.py`). Used by `sundog start --address` and `cluster_utils.Cluster`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time

from sundog import config as config_module
from sundog import early, machine
from sundog.config import Config
from sundog.engines import obstacles, sessions
from sundog.exceptions import RaySystemError
from sundog.ids import random_id
from sundog.plain import as_dict, plain
from sundog.store import folders, places
from sundog.wire import requests as ask

_UP_S = 60.0
_LOOK_S = 0.005


@plain(frozen=True)
class MemberInfo:
    """A node that joined a session."""

    node_id: str
    pid: int
    session: sessions.SessionInfo


def start_member(
    info: sessions.SessionInfo,
    resources: dict[str, float],
    labels: dict[str, str],
    config: Config,
    *,
    node_name: str = "",
    environ: dict[str, str] | None = None,
    wait: bool = True,
) -> MemberInfo:
    """Start a node on this machine that belongs to a running session.

    Args:
        environ: variables that the processes of this node have beside those of this program.
        wait: whether to wait until the session counts the node.

    Raises:
        RaySystemError: the node did not join; the message has the end of its log.
    """
    obstacles.check()
    node_id = random_id(16)
    tag = places.tag_of_node(node_id)
    shm_root = places.shared_root(info.shm_root, tag)
    session = {
        "name": info.name,
        "path": info.path,
        "shm_root": shm_root,
        "spill_folders": [f"{info.path}/spilled_objects"],
    }
    variables = config_module.user_environ() | (environ or {})
    params: dict[str, object] = {
        "session": session,
        "member": True,
        "node_id": node_id.hex(),
        "node_name": node_name,
        "config": as_dict(config),
        "resources": resources,
        "labels": {**machine.labels(variables), **labels, "ray.io/node-id": node_id.hex()},
        "driver_fd": None,
        "environ": variables,
    }
    try:
        lock = folders.make_shared_lock(shm_root)
        try:
            program = early.take(environ)
            program.tell(pickle.dumps(params, 5), lock, lock)
        finally:
            os.close(lock)
    except OSError as error:
        raise obstacles.explained(error, os.path.dirname(info.shm_root)) from None
    program.sock.close()
    member = MemberInfo(node_id.hex(), program.pid, info)
    if wait:
        await_member(member)
    return member


def await_member(member: MemberInfo) -> None:
    """Wait until the session counts a node.

    Raises:
        RaySystemError: it ended, or did not join in time.
    """
    deadline = time.monotonic() + _UP_S
    while time.monotonic() < deadline:
        rows = sessions.request(member.session, ask.Nodes())
        if any(row["NodeID"] == member.node_id for row in rows):
            return
        if has_ended(member.pid):
            break
        time.sleep(_LOOK_S)
    else:
        kill(member)
    tag = places.tag_of_node(bytes.fromhex(member.node_id))
    log = f"{member.session.path}/logs/node-{tag}.log"
    with contextlib.suppress(OSError), open(log, encoding="utf-8") as file:
        raise RaySystemError(f"The node did not join its session. The end of its log:\n{file.read()[-2000:]}")
    raise RaySystemError("The node did not join its session, and wrote no log.")


def has_ended(pid: int) -> bool:
    """Whether a process is gone; of a child of ours, nothing is left then."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")


def kill(member: MemberInfo) -> None:
    """SIGKILL for a node that this program started, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(member.pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(member.pid, 0)


def drain(info: sessions.SessionInfo, node_id: str, *, timeout_s: float) -> bool:
    """Have a node finish its tasks and leave; whether it did so within the time. Ended it is in any case.

    Raises:
        ConnectionError: the session has ended.
    """
    finished = False
    deadline = time.monotonic() + timeout_s
    while not finished:
        finished = sessions.request(info, ask.DrainNode(bytes.fromhex(node_id), False))
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_S)
    sessions.request(info, ask.DrainNode(bytes.fromhex(node_id), True))
    return finished
