"""Sessions from the outside: made, found, joined, asked, ended.

Owns the folders a session starts with and the start of its node process. Used by `init()` and by the
command line. The process that starts a node does not wait for it to come up: the node inherits the socket, and
messages wait in it. A process that joins a session waits for it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
from typing import TYPE_CHECKING, TypeVar, cast

from sundog import config as config_module
from sundog import early, machine, notices, trust
from sundog.config import Config
from sundog.engines import obstacles
from sundog.engines.capacity import from_variable, node_resources
from sundog.exceptions import RaySystemError
from sundog.ids import random_id
from sundog.net import sockets as socket
from sundog.net.packets import Connection
from sundog.plain import as_dict, plain
from sundog.printable import printable
from sundog.store import folders
from sundog.wire.control import Answer, Rpc
from sundog.wire.requests import Request, StopSession
from sundog.wire.row import read

if TYPE_CHECKING:
    from sundog.engines.heads import Head
    from sundog.wire.dicts import NodeParams, SessionFacts

A = TypeVar("A")

_AUTO = ("auto", "local-auto", "")
_STARTING_S = 30.0
_LOOK_S = 0.02
_UP_S = 60.0  # a node needs a tenth of a second; far more only where many processes share few cores


@plain(frozen=True)
class SessionInfo:
    """A session that can be joined."""

    name: str
    path: str
    address: str
    node_pid: int
    namespace: str = ""
    shm_root: str = ""
    persistent: bool = False  # started by `sundog start`: the session stays until it is stopped
    cpus: float = 0.0


def make_session(config: Config) -> tuple[SessionFacts, int]:
    """Make the folders of a new session on disk and take its lock; returns its facts and the lock's descriptor."""
    token = random_id(4).hex()
    name = f"session_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}_{token}"
    path = os.path.join(_make_home(config), name)
    wanted = folders.destinations(config.object_spilling_directory, config.object_spilling_config)
    trust.make_new(path)
    _check_private(path)
    lock = folders.make_lock(path)
    try:
        for part in ("logs", "rings"):
            os.mkdir(f"{path}/{part}", 0o700)
        spill_folders = folders.make_folders(path, wanted)
    except BaseException:
        folders.remove_session(path)
        os.close(lock)
        raise
    shm_root = f"{config.shm_dir}/sundog-{os.getpid()}-{token}"  # created when a node knows of the folder
    return {"name": name, "path": path, "shm_root": shm_root, "spill_folders": spill_folders}, lock


def _check_private(path: str) -> None:
    """Raises: ValueError: a new folder is not this user's alone, for its file system keeps no owners or modes."""
    try:
        trust.check_folder(path)
    except trust.Untrusted as error:
        os.rmdir(path)
        raise ValueError(
            f"Sessions cannot be kept in {os.path.dirname(path)}: a folder was made there with mode 0700, and "
            f"{error.strerror}. Give a folder on a local disk with init(_temp_dir=…), sundog start --temp-dir, or "
            "SUNDOG_temp_dir."
        ) from None


def _make_home(config: Config) -> str:
    """The folder in which the session's own is made.

    Raises:
        ValueError: it cannot be made, or it is not safe.
    """
    default = config_module.default_temp_dir()
    wanted = os.path.abspath(config.temp_dir or default)
    try:
        place = os.path.dirname(default) if wanted == default else wanted
        trust.make_missing(place)
        if hazard := trust.check_container(place):
            notices.warn(f"Sessions are kept in {place}, and {hazard}")
        if wanted == default:
            home, why = trust.make_home(default)
            if why:
                notices.warn(
                    f"Sessions of this user are in {home}, not in {default}: {why}. To use "
                    f"{default}, let its owner remove it first; or choose another folder with SUNDOG_temp_dir."
                )
            return home
        return wanted
    except OSError as error:
        if error.errno in obstacles.NO_DESCRIPTOR:
            raise
        raise ValueError(
            f"Sessions cannot be kept in {wanted}: {error.strerror}. Give a folder of this user's own with "
            "init(_temp_dir=…), sundog start --temp-dir, or SUNDOG_temp_dir."
        ) from None


def spawn_node(
    session: SessionFacts,
    lock: int,
    config: Config,
    resources: dict[str, float],
    labels: dict[str, str],
    node_id: bytes,
    *,
    persistent: bool,
    environ: dict[str, str] | None = None,
    head: Head | None = None,
) -> tuple[int, socket.socket | None]:
    """Start the node of a session; returns its pid and, unless it is persistent, our end of its socket."""
    url = head.info.url.removeprefix("http://") if head is not None else None
    session |= {"webui_url": url, "store_bytes": int(resources.get("object_store_memory", 0))}
    variables = config_module.user_environ() | (environ or {})
    labels = machine.labels(variables) | labels
    params: NodeParams = {
        "session": session,
        "node_id": node_id.hex(),
        "config": as_dict(config),
        "resources": resources,
        "labels": labels | from_variable("RAY_OVERRIDE_LABELS", str) | {"ray.io/node-id": node_id.hex()},
        "persistent": persistent,
        "driver_fd": None if persistent else early.SOCKET_FD,
        "environ": variables,
    }
    shared_lock = _make_shared_lock(session, lock)
    try:
        program = early.take(environ)
    except OSError:
        os.close(lock)
        os.close(shared_lock)
        raise
    try:
        program.tell(pickle.dumps(params, 5), lock, shared_lock, *_announce(session["path"], head))
    except OSError as error:
        os.close(shared_lock)
        program.drop()
        raise RaySystemError(
            f"The node (pid {program.pid}) ended before its session began ({error.strerror}); its output is above. "
            f"Try: {sys.executable} -c 'import sundog.node.program'"
        ) from None
    finally:
        os.close(lock)
    try:
        # Created now, not earlier: if this process is killed, the node knows of the folder and removes it.
        folders.make_shared(session["shm_root"], session["path"], shared_lock)
    except OSError:
        os.kill(program.pid, signal.SIGKILL)
        program.drop()
        bury(session)
        raise
    finally:
        os.close(shared_lock)
    if persistent:
        program.sock.close()
        return program.pid, None
    return program.pid, socket.socket(fileno=program.sock.detach())


def _announce(path: str, head: Head | None) -> list[int]:
    """Say in the session's folder where its head process will be; returns what the node needs to start it."""
    if head is None:
        return []
    from sundog.engines.heads import write_head

    write_head(path, head.info)
    return [head.listener.fileno()]


def _make_shared_lock(session: SessionFacts, lock: int) -> int:
    """The lock of the session's shared memory.

    Raises:
        ValueError: there can be no shared memory; the session's folder is removed, and its lock closed.
    """
    place = os.path.dirname(session["shm_root"])
    try:
        if hazard := trust.check_container(place):
            notices.warn(f"Objects are kept in {place}, and {hazard}")
        return folders.make_shared_lock(session["shm_root"])
    except OSError as error:
        folders.remove_session(session["path"])
        os.close(lock)
        if error.errno in obstacles.NO_DESCRIPTOR:
            raise
        raise ValueError(
            f"Objects cannot be kept in {place}: {error.strerror}. Give a folder in memory that this user can write "
            "with the setting shm_dir (SUNDOG_shm_dir)."
        ) from None


# ---------------------------------------------------------------------- finding
def find_sessions(temp_dir: str | None = None) -> list[SessionInfo]:
    """Live sessions of this user, the newest first."""
    infos = [read_session(path) for path in session_paths(temp_dir)]
    return [info for info in infos if info is not None]


def session_paths(temp_dir: str | None) -> list[str]:
    """What may be folders of sessions, the newest first. Whether they are ours is asked when they are opened."""
    default = config_module.default_temp_dir()
    wanted = os.path.abspath(temp_dir or config_module.load().temp_dir or default)
    homes = trust.homes(default) if wanted == default else [wanted]
    found = []
    for home in homes:
        with contextlib.suppress(OSError):
            found += [(name, home) for name in os.listdir(home) if name.startswith("session_")]
    return [os.path.join(home, name) for name, home in sorted(found, reverse=True)]


def read_session(path: str) -> SessionInfo | None:
    """A session by its folder; None if it is not alive, or not this user's."""
    import json

    try:
        folder = trust.open_folder(path)
    except OSError:
        return None
    try:
        facts = json.loads(trust.read_file("session.json", folder))
        pid, shm_root = int(facts["node_pid"]), str(facts["shm_root"])
        is_persistent, cpus = bool(facts["persistent"]), float(facts["resources"].get("CPU", 0.0))
        is_up = pid > 0 and folders.is_held(folder)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    finally:
        os.close(folder)
    return (
        SessionInfo(os.path.basename(path), path, path, pid, "", shm_root, is_persistent, cpus)
        if is_up
        else None
    )


def is_alive(path: str) -> bool:
    """Whether a session of this user has a node that holds its lock."""
    try:
        folder = trust.open_folder(path)
    except OSError:
        return False
    try:
        return folders.is_held(folder)
    finally:
        os.close(folder)


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
            starting = _starting(address, temp_dir)
            if not starting:
                raise
            if time.monotonic() > deadline:
                raise ConnectionError(
                    f"The session {printable(starting)} is still starting: it has no session.json yet, after "
                    f"{_STARTING_S:g} s. Its log: {printable(starting)}/logs/node.log"
                ) from None
        time.sleep(_LOOK_S)


def _starting(address: str, temp_dir: str | None) -> str:
    """The folder of a session that an address may mean, whose lock is taken, and which cannot be joined yet; or ""."""
    if os.path.isabs(address):
        paths = [address]
    else:
        found = session_paths(temp_dir)
        paths = found if address in _AUTO else [path for path in found if os.path.basename(path) == address]
    starting = (path for path in paths if not os.path.exists(f"{path}/session.json") and is_alive(path))
    return next(starting, "")


def _resolve_now(address: str, temp_dir: str | None) -> SessionInfo:
    sessions = find_sessions(temp_dir)
    if address in _AUTO:
        if sessions:
            return sessions[0]
        raise ConnectionError("There is no running session to join here. Start one with: sundog start --head")
    for info in sessions:
        if address in (info.name, info.path, info.address) or os.path.abspath(address) == info.path:
            return info
    if os.path.isabs(address):
        path = os.path.realpath(address)  # the address may be the link session_latest
        info_at = read_session(path)
        if info_at is not None:
            return info_at
        _refuse_stranger(path, address)
    names = [info.name for info in sessions]
    raise ConnectionError(
        f"There is no running session at address {address!r}. Running here: {names or 'none'}. "
        "See: sundog status, or start one with: sundog start --head"
    )


def _refuse_stranger(path: str, address: str) -> None:
    """Raises: ConnectionError: there is a folder, and it is not this user's."""
    try:
        trust.check_folder(path)
    except trust.Untrusted as error:
        raise ConnectionError(
            f"The session at address {address!r} cannot be joined: {error.strerror}. A program can join "
            "only sessions of its own user. See: sundog status, or start one with: sundog start --head"
        ) from None
    except OSError:
        return


def connect(info: SessionInfo) -> Connection:
    """A connection to the node of a session, which is known to run as this user.

    Raises:
        ConnectionError: it does not answer, or it is another user's.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = -1
    try:
        folder = trust.open_folder(info.path)
        sock.connect(f"/proc/self/fd/{folder}/node.sock")
        trust.check_peer(sock)  # before any of its bytes are unpickled
    except OSError as error:
        sock.close()
        what = "is not trusted" if isinstance(error, trust.Untrusted) else "does not answer"
        raise ConnectionError(f"The session {info.name} {what}: {error.strerror}.") from None
    finally:
        if folder >= 0:
            os.close(folder)
    return Connection(sock, info.shm_root)


# ---------------------------------------------------------------------- commands
def request(info: SessionInfo, question: Request[A], *, timeout_s: float = 10.0) -> A:
    """Ask a session's node from outside."""
    connection = connect(info)
    try:
        connection.send(Rpc(1, question.kind, question[1:]))
        if not connection.wait(timeout_s):
            raise RaySystemError(
                f"The node of {info.name} did not answer {question.kind!r} within {timeout_s} s."
            )
        received = connection.receive()
        if received is None:
            raise ConnectionError(f"The node of {info.name} ended before it answered {question.kind!r}.")
        answer = read(Answer, received[0])
        if not answer.ok:
            raise answer.value
        return cast(A, answer.value)
    finally:
        connection.close()


def start_head(
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    object_store_memory: int | None = None,
    object_spilling_directory: str | None = None,
    temp_dir: str | None = None,
    head: Head | None = None,
    labels: dict[str, str] | None = None,
    block: bool = False,
    system_config: dict[str, object] | None = None,
    environ: dict[str, str] | None = None,
) -> SessionInfo:
    """Start a session that stays until it is stopped; waits until it can be joined.

    Args:
        environ: variables that its processes have beside those of this program.
        head: the head process that it is to have.

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
    totals = node_resources(num_cpus, num_gpus, resources, object_store_memory, config)
    obstacles.check()
    try:
        session, lock = make_session(config)
        _check_room(session["path"], lock)
        node_id, named = random_id(16), labels or {}
        pid, _ = spawn_node(
            session, lock, config, totals, named, node_id, persistent=True, environ=environ, head=head
        )
    except OSError as error:
        raise obstacles.explained(error, config.shm_dir) from None
    return _await_up(session, pid)


def _await_up(session: SessionFacts, pid: int) -> SessionInfo:
    """Wait until a new session can be joined.

    Raises:
        RaySystemError: its node did not come up; the message has the end of its log.
    """
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
        raise RaySystemError(f"The node did not start. The end of its log:\n{file.read()[-2000:]}")
    raise RaySystemError("The node did not start, and wrote no log.")


def _check_room(path: str, lock: int) -> None:
    """A session that others are to join must be able to say so in its folder.

    Raises:
        OSError: there is no room for a small file. The folder is removed.
    """
    try:
        with open(f"{path}/session.json.new", "wb") as file:
            file.write(bytes(4096))
        os.unlink(f"{path}/session.json.new")
    except OSError as error:
        folders.remove_session(path)
        os.close(lock)
        raise OSError(error.errno, error.strerror, path) from None


def _exited(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")


def stop_session(info: SessionInfo, force: bool = False, grace_s: float = 10.0) -> list[str]:
    """End a session; returns what was done.

    Raises:
        RaySystemError: its node does not end, and the process that it names is not known to be its node.
    """
    done = []
    if not force:
        with contextlib.suppress(Exception):
            request(info, StopSession("sundog stop"), timeout_s=grace_s)
            done.append(f"asked the node (pid {info.node_pid}) of {info.name} to end")
    deadline = time.monotonic() + (0 if force else grace_s)
    while is_alive(info.path) and time.monotonic() < deadline:
        time.sleep(0.01)
    if is_alive(info.path) and _kill_node(info):
        done.append(f"killed the node (pid {info.node_pid}) of {info.name}")
        deadline = time.monotonic() + 5
        while is_alive(info.path) and time.monotonic() < deadline:
            time.sleep(0.01)
    if is_alive(info.path):
        raise RaySystemError(
            f"Session {info.name} does not end. Its session.json names process {info.node_pid} as its node, which "
            f"cannot be confirmed, so no signal was sent. See: ls -l /proc/{info.node_pid}/fd"
        )
    if folders.is_shared_of(info.shm_root, info.path):
        folders.remove_shared(info.shm_root)
    folders.withdraw(info.path)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(info.node_pid, 0)  # the node is a child if this process started it: leave no zombie
    return done


def _kill_node(info: SessionInfo) -> bool:
    """SIGKILL for the process that holds the session's lock, if that is the one which the session names."""
    try:
        folder = trust.open_folder(info.path)
        try:
            lock = trust.open_file("lock", folder)
        finally:
            os.close(folder)
    except OSError:
        return False
    try:
        node = trust.open_holder(info.node_pid, lock)
    finally:
        os.close(lock)
    if node is None:
        return False
    try:
        signal.pidfd_send_signal(node, signal.SIGKILL)
    except ProcessLookupError:
        pass  # the process has just ended
    finally:
        os.close(node)
    return True


def bury(session: SessionFacts) -> None:
    """Remove what only a living session needs. Harmless if its node or its zygote did this already."""
    folders.withdraw(session["path"])
    folders.remove_shared(session["shm_root"])
    folders.remove_folders(session["path"])
