"""Sessions from the outside: made, found, joined, asked, ended.

Owns the folders a session starts with and the start of its node process. Used by `init()` and by the
command line. Who starts a node does not wait for it to come up: its socket is inherited, and what is sent to it
waits there. Who wants to join one does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import signal
import sys
import time
from typing import Any

from sundog import config as config_module
from sundog import early, machine
from sundog.config import Config
from sundog.exceptions import RaySystemError
from sundog.ids import random_id
from sundog.net import sockets as socket
from sundog.net.packets import Connection
from sundog.plain import as_dict, plain
from sundog.store import folders, limits

_AUTO = ("auto", "local-auto", "")
_STARTING_S = 30.0
_LOOK_S = 0.02
_UP_S = 60.0  # a node takes a tenth of a second; far more only where many share few cores


@plain(frozen=True)
class SessionInfo:
    """A session that can be joined."""

    name: str
    path: str
    address: str
    node_pid: int
    namespace: str = ""
    shm_root: str = ""


def make_session(config: Config) -> tuple[dict[str, Any], int]:
    """Make the folders of a new session on disk and take its lock; returns its facts and the lock's descriptor."""
    token = random_id(4).hex()
    name = f"session_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}_{token}"
    path = os.path.join(os.path.abspath(config.temp_dir), name)
    for part in (path, f"{path}/logs", f"{path}/rings"):
        os.makedirs(part, mode=0o700)
    wanted = folders.destinations(config.object_spilling_directory, config.object_spilling_config)
    spill_folders = folders.make_folders(path, name, wanted)
    shm_root = f"{config.shm_dir}/sundog-{os.getpid()}-{token}"  # made when a node knows of it
    lock = os.open(f"{path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return {"name": name, "path": path, "shm_root": shm_root, "spill_folders": spill_folders}, lock


def spawn_node(
    session: dict[str, Any],
    lock: int,
    config: Config,
    resources: dict[str, float],
    labels: dict[str, str],
    node_id: bytes,
    *,
    persistent: bool,
) -> tuple[int, socket.socket | None]:
    """Start the node of a session; returns its pid and, unless it is persistent, our end of its socket."""
    session["store_bytes"] = int(resources.get("object_store_memory", 0))
    params = {
        "session": session,
        "node_id": node_id.hex(),
        "config": as_dict(config),
        "resources": resources,
        "labels": {**labels, "ray.io/node-id": node_id.hex()},
        "persistent": persistent,
        "driver_fd": None if persistent else early.SOCKET_FD,
        "environ": config_module.user_environ(),
    }
    program = early.take()
    try:
        program.tell(pickle.dumps(params, 5), lock)
    except OSError as error:
        program.drop()
        raise RaySystemError(
            f"The node (pid {program.pid}) ended before its session began ({error.strerror}); what it said is above. "
            f"Try: {sys.executable} -c 'import sundog.node.program'"
        ) from None
    finally:
        os.close(lock)
    try:
        # Not before: should we be killed, whoever knows of it removes it.
        folders.make_shared(session["shm_root"], session["path"])
    except OSError:
        os.kill(program.pid, signal.SIGKILL)
        program.drop()
        bury(session)
        raise
    if persistent:
        program.sock.close()
        return program.pid, None
    return program.pid, socket.socket(fileno=program.sock.detach())


# ---------------------------------------------------------------------- finding
def find_sessions(temp_dir: str | None = None) -> list[SessionInfo]:
    """Live sessions, the newest first."""
    folder = os.path.abspath(temp_dir or config_module.load().temp_dir)
    found = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder), reverse=True):
            if name.startswith("session_") and not name.startswith(
                "session_latest"
            ):  # also a link in the making
                info = read_session(os.path.join(folder, name))
                if info is not None:
                    found.append(info)
    return found


def read_session(path: str) -> SessionInfo | None:
    """A session by its folder; None if it is not alive."""
    import json

    try:
        with open(f"{path}/session.json", encoding="utf-8") as file:
            info = json.load(file)
    except (OSError, ValueError):
        return None
    if not is_alive(path):
        return None
    return SessionInfo(info["name"], info["path"], info["path"], info["node_pid"], "", info["shm_root"])


def is_alive(path: str) -> bool:
    """Whether a session's node holds its lock."""
    try:
        lock = os.open(f"{path}/lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def resolve(address: str, temp_dir: str | None = None) -> SessionInfo:
    """The session that an address means: "auto", a session's name, or its folder. One that is starting is waited for.

    Raises:
        ConnectionError: there is none.
    """
    deadline = time.monotonic() + _STARTING_S
    while True:
        try:
            return _resolve_now(address, temp_dir)
        except ConnectionError:
            if time.monotonic() > deadline or not _is_starting(address, temp_dir):
                raise
        time.sleep(_LOOK_S)


def _is_starting(address: str, temp_dir: str | None) -> bool:
    """Whether an address may mean a session whose lock is taken, and which does not say yet that it can be joined."""
    if os.path.isabs(address):
        paths = [address]
    else:
        folder = os.path.abspath(temp_dir or config_module.load().temp_dir)
        names = os.listdir(folder) if os.path.isdir(folder) else []
        auto = address in _AUTO
        paths = [
            f"{folder}/{name}" for name in names if name == address or (auto and name.startswith("session_"))
        ]
    return any(not os.path.exists(f"{path}/session.json") and is_alive(path) for path in paths)


def _resolve_now(address: str, temp_dir: str | None) -> SessionInfo:
    sessions = find_sessions(temp_dir)
    if address in _AUTO:
        if sessions:
            return sessions[0]
        raise ConnectionError(
            "There is no running session to join: address='auto' looks for one on this machine. "
            "Start one with: sundog start --head"
        )
    for info in sessions:
        if address in (info.name, info.path, info.address) or os.path.abspath(address) == info.path:
            return info
    info_at = read_session(address) if os.path.isabs(address) else None
    if info_at is not None:
        return info_at
    names = [info.name for info in sessions]
    raise ConnectionError(
        f"There is no running session at address {address!r}. Running here: {names or 'none'}. "
        "See: sundog status, or start one with: sundog start --head"
    )


def connect(info: SessionInfo) -> Connection:
    """A connection to the node of a session."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(info.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sock.connect(f"/proc/self/fd/{folder}/node.sock")
    except OSError as error:
        sock.close()
        raise ConnectionError(f"The session {info.name} does not answer: {error.strerror}.") from None
    finally:
        os.close(folder)
    return Connection(sock, info.shm_root)


# ---------------------------------------------------------------------- commands
def request(info: SessionInfo, verb: str, *args: Any, timeout_s: float = 10.0) -> Any:
    """Ask a session's node from outside."""
    import select

    connection = connect(info)
    try:
        connection.send(("rpc", 1, verb, args))
        if not select.select([connection.sock], [], [], timeout_s)[0]:
            raise RaySystemError(f"The node of {info.name} did not answer {verb!r} within {timeout_s} s.")
        received = connection.receive()
        if received is None:
            raise ConnectionError(f"The node of {info.name} ended while it was asked {verb!r}.")
        _, _, ok, value = received[0]
        if not ok:
            raise value
        return value
    finally:
        connection.close()


def start_head(
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    object_store_memory: int | None = None,
    object_spilling_directory: str | None = None,
    temp_dir: str | None = None,
    dashboard_host: str | None = None,
    dashboard_port: int | None = None,
    labels: dict[str, str] | None = None,
    block: bool = False,
    system_config: dict[str, object] | None = None,
) -> SessionInfo:
    """Start a session that stays until it is stopped; waits until it can be joined.

    Raises:
        RaySystemError: the node did not come up; the message has the end of its log.
        ValueError: a setting does not exist or has a value that makes no sense.
    """
    overrides: dict[str, object] = dict(system_config or {})
    if temp_dir:
        overrides["temp_dir"] = temp_dir
    if object_spilling_directory:
        overrides["object_spilling_directory"] = object_spilling_directory
    config = config_module.load(overrides)
    session, lock = make_session(config)
    totals = node_resources(num_cpus, num_gpus, resources, object_store_memory, config)
    pid, _ = spawn_node(session, lock, config, totals, labels or {}, random_id(16), persistent=True)
    deadline = time.monotonic() + _UP_S
    while time.monotonic() < deadline:
        info = read_session(session["path"])
        if info is not None:
            return info
        if _exited(pid):
            break
        time.sleep(0.005)
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    bury(session)
    with contextlib.suppress(OSError), open(f"{session['path']}/logs/node.log", encoding="utf-8") as file:
        raise RaySystemError(f"The node did not come up. The end of its log:\n{file.read()[-2000:]}")
    raise RaySystemError("The node did not come up, and left no log.")


def _exited(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")


def stop_session(info: SessionInfo, force: bool = False, grace_s: float = 10.0) -> list[str]:
    """End a session; returns what was done."""
    done = []
    if not force:
        with contextlib.suppress(Exception):
            request(info, "stop", "sundog stop", timeout_s=grace_s)
            done.append(f"asked the node (pid {info.node_pid}) of {info.name} to end")
    deadline = time.monotonic() + (0 if force else grace_s)
    while is_alive(info.path) and time.monotonic() < deadline:
        time.sleep(0.01)
    if is_alive(info.path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(info.node_pid, signal.SIGKILL)
            done.append(f"killed the node (pid {info.node_pid}) of {info.name}")
        deadline = time.monotonic() + 5
        while is_alive(info.path) and time.monotonic() < deadline:
            time.sleep(0.01)
    import shutil

    shutil.rmtree(info.shm_root, ignore_errors=True)
    withdraw(info.path)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(info.node_pid, 0)  # ours, if this process started it: leave no zombie
    return done


def withdraw(path: str) -> None:
    """The session is over: nobody can join it any more. Harmless if its node did this already."""
    for name in ("node.sock", "session.json"):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}/{name}")


def bury(session: dict[str, Any]) -> None:
    """Remove what only a living session needs. Harmless if its node or its zygote did this already."""
    withdraw(session["path"])
    if os.path.lexists(session["shm_root"]):
        import shutil  # with four compressors in tow: for the worst case only

        shutil.rmtree(session["shm_root"], ignore_errors=True)
    folders.remove_folders(session["path"])


# ---------------------------------------------------------------------- resources of this machine
def node_resources(
    num_cpus: float | None,
    num_gpus: float | None,
    resources: dict[str, float] | None,
    object_store_memory: int | None,
    config: Config,
) -> dict[str, float]:
    """The logical resources of this machine.

    Raises:
        ValueError: a negative amount, or a built-in name among the custom ones.
    """
    total = memory_bytes()
    store = float(object_store_memory or limits.store_bytes(total, config))
    out: dict[str, float] = {
        "CPU": float(len(os.sched_getaffinity(0)) if num_cpus is None else num_cpus),
        "memory": float(int(total * 0.7)),
        "object_store_memory": store,
        "node:127.0.0.1": 1.0,
        "node:__internal_head__": 1.0,
    }
    if num_gpus:
        out["GPU"] = float(num_gpus)
    for name, amount in (resources or {}).items():
        if name in ("CPU", "GPU"):
            raise ValueError(f"Give {name} through num_{name.lower()}s=, not in resources=.")
        if not isinstance(name, str) or not name:
            raise TypeError(f"resources: {name!r} is no name; a resource is named by a string.")
        # Nor NaN, which is below nothing.
        if not isinstance(amount, (int, float)) or not amount < float("inf"):
            raise ValueError(f"resources[{name!r}] must be a number, not {amount!r}.")
        out[name] = float(amount)
    for name, amount in out.items():
        if amount < 0:
            raise ValueError(f"A machine cannot have {amount} of {name}: amounts must not be negative.")
    return {name: amount for name, amount in out.items() if amount > 0 or name == "CPU"}


def memory_bytes() -> int:
    """Memory of this machine or, if that is less, of its control group."""
    return machine.limit_bytes()
