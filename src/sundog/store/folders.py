"""The folders of a session: where its objects go, in shared memory and on disk, or to a URL; its locks.

Owns the reading of `object_spilling_directory` and `object_spilling_config` (names and shapes of Ray's), the making
of the folders, the two locks by which the dead are told from the living (each lies in what it guards), and the removal,
which each process may have to do that removes what is left of a session: the node, its zygote, or the next session.
`<session>/spilled_objects` is the folder, or holds links to the folders that were asked for. Refuses to touch what is
not this user's (`sundog.trust`). Used by the driver, the node and the zygote, each on its main thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from sundog import notices, trust
from sundog.plain import NamedTuple
from sundog.store import places

LOCK, LINK = ".lock", ".session"  # in the folder of shared memory
STARTED = "started"  # in the folder of sessions: a link to the one that programs join without being told
_MARK = ".sundog"  # in the folder of a session: a link that contains its name
# What each type of object_spilling_config may have in its params, where to spill first.
_FOLDER_PARAMS = ("directory_path", "buffer_size")
_URL_PARAMS = ("uri", "buffer_size", "override_transport_params", "storage_options")
_PARAMS = {
    "filesystem": (*_FOLDER_PARAMS, "storage_options"),
    "mock_distributed_fs": _FOLDER_PARAMS,  # the name that tests of Ray programs have for a shared file system
    "smart_open": _URL_PARAMS,
    "fsspec": _URL_PARAMS,
}


class Destination(NamedTuple):
    """A place for spilled objects: a URL and what its file system needs to be told."""

    url: str
    options: dict[str, object]

    @property
    def folder(self) -> str | None:
        """The local folder that it is, if it is one."""
        if self.url.startswith("file://"):
            return self.url.removeprefix("file://")
        return None if "://" in self.url else self.url


def destinations(directory: str, config_json: str) -> list[Destination]:
    """What the settings ask for; nothing means the session's own folder.

    Raises:
        ValueError: the JSON is not of the shape that Ray's setting has.

    >>> destinations("", '{"type": "filesystem", "params": {"directory_path": ["/a", "/b"]}}')[1].folder
    '/b'
    """
    if directory:
        return [Destination(directory, {})]
    if not config_json:
        return []
    try:
        import json

        given = json.loads(config_json)
        kind, params = given["type"], given.get("params") or {}
        where = params[_PARAMS[kind][0]]
    except (ValueError, KeyError, TypeError, AttributeError):
        kind = where = None
        params = {}
    urls = [where] if isinstance(where, str) else where
    if (
        kind is None
        or not isinstance(urls, list)
        or not all(isinstance(url, str) for url in urls)
        or not urls
    ):
        raise ValueError(
            f"object_spilling_config is {config_json!r}, which names no place. Write it like "
            '\'{"type": "filesystem", "params": {"directory_path": "/mnt/spill"}}\' or '
            '\'{"type": "smart_open", "params": {"uri": "s3://bucket/path"}}\'.'
        )
    _check_params(kind, params)
    return [Destination(url, params.get("storage_options") or {}) for url in urls]


def _check_params(kind: str, params: dict[str, object]) -> None:
    known = _PARAMS[kind]
    for name in params:
        if name not in known:
            raise ValueError(
                f"object_spilling_config of type {kind!r} has no parameter {name!r}. The parameters are: "
                f"{', '.join(known)}."
            )
    size = params.get("buffer_size")
    if size is not None and not isinstance(size, int):
        raise ValueError(f"buffer_size in object_spilling_config is a number of bytes (int), got {size!r}.")
    for name in ("override_transport_params", "storage_options"):
        if not isinstance(params.get(name) or {}, dict):
            raise ValueError(f"{name} in object_spilling_config is a dict, got {params[name]!r}.")


def make_folders(session_path: str, wanted: list[Destination]) -> list[str]:
    """Make the local folders of a session; the first is also for objects that find no room in memory.

    Raises:
        ValueError: a folder cannot be made or is not safe, or a URL needs the package fsspec.
    """
    own = f"{session_path}/spilled_objects"
    if not wanted:
        return [own]  # created on demand
    made = []
    trust.make_folder(own)
    for number, destination in enumerate(wanted):
        if destination.folder is None:
            _require_fsspec(destination.url)
            continue
        place = os.path.abspath(destination.folder)
        folder = f"{place}/{_spill_name(session_path)}"
        try:
            trust.make_missing(place)
            if hazard := trust.check_container(place):
                notices.warn(f"Objects are spilled to {place}, and {hazard}")
            trust.make_folder(folder)
        except OSError as error:
            raise ValueError(
                f"Objects cannot be spilled to {destination.folder}: {error.strerror}. Give a folder that this user "
                "can write with object_spilling_directory."
            ) from None
        os.symlink(folder, f"{own}/to-{number}")
        made.append(folder)
    return made or [own]


def _spill_name(session_path: str) -> str:
    """The name of a session's own folder at a place for spilled objects."""
    return f"sundog-{os.path.basename(session_path)}"


def _require_fsspec(url: str) -> None:
    from importlib.util import find_spec

    if find_spec("fsspec") is None:
        raise ValueError(
            f"Spilling to {url} needs the package fsspec, which is not installed. Install it with: "
            "pip install 'sundog[spill]'"
        )


def remove_folders(session_path: str) -> None:
    """Remove the spilled objects of a session that has ended; at places that others use too, its own folder alone."""
    own = f"{session_path}/spilled_objects"
    try:
        links = trust.open_folder(own)
    except OSError:
        return
    try:
        for name in os.listdir(links):
            with contextlib.suppress(OSError):  # no link
                folder = os.readlink(name, dir_fd=links)
                if os.path.isabs(folder) and os.path.basename(folder) == _spill_name(session_path):
                    trust.remove(folder)
    finally:
        os.close(links)
    trust.remove(own)


def remove_node_folder(spill_folder: str, tag: str) -> None:
    """Remove the spilled objects of a node that has ended, the head's excepted."""
    if tag:
        trust.remove(places.disk_root(spill_folder, tag))


# ---------------------------------------------------------------------- shared memory
def make_shared_lock(shm_root: str) -> int:
    """The lock of a session's shared memory, taken: the node holds it for life, and a process that can take it knows
    that the node is dead.

    It has no name until `make_shared` puts it into the folder, so no process ever finds it free while the session
    lives, and nothing is left of it should this process be killed. The lock lies with what is removed, so it is there
    for every process that sees that: a session in another container may see the same /dev/shm and another /tmp.

    Raises:
        OSError: there can be no file.
    """
    try:
        lock = os.open(os.path.dirname(shm_root), os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        # The file system does not support files without a name.
        lock = trust.create_file(shm_root + LOCK)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def make_shared(shm_root: str, session_path: str, lock: int) -> None:
    """Make the folder of a session's shared memory, with its lock and a link to the session.

    Driver and node both do this as soon as the node knows of the session, for neither can tell which is first.

    Raises:
        OSError: it cannot be made, or is another user's.
    """
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(shm_root, 0o700)
        try:
            folder = trust.open_folder(shm_root)
        except FileNotFoundError:
            continue  # a sweep removed it as the remains of a dead session, because it was empty
        try:
            with contextlib.suppress(FileExistsError):
                # With `dst_dir_fd`, Python follows the link that a descriptor is in /proc.
                os.link(f"/proc/self/fd/{lock}", LOCK, dst_dir_fd=folder)
            with contextlib.suppress(FileExistsError):
                os.symlink(session_path, LINK, dir_fd=folder)
            break
        except FileNotFoundError:
            continue
        finally:
            os.close(folder)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(shm_root + LOCK)


def remove_shared(shm_root: str) -> None:
    """Remove the shared memory of a session that has ended."""
    trust.remove(shm_root, last=(LOCK,))


def is_shared_of(shm_root: str, session_path: str) -> bool:
    """Whether this is the shared memory of that session, and this user's."""
    target = _link_in(shm_root, LINK)
    return target is not None and os.path.realpath(target) == os.path.realpath(session_path)


def sweep_shared(shm_root: str) -> str:
    """Remove shared memory of this user if its session is dead for certain.

    Returns:
        The folder of that session, which may be out of reach from here; "" if none is known.
    """
    if shm_root.endswith(LOCK):
        _sweep_lock(shm_root)
        return ""
    try:
        folder = trust.open_folder(shm_root)
    except OSError:
        return ""  # gone, or another user's
    path = ""
    try:
        if not _can_take(LOCK, folder):
            return ""
        with contextlib.suppress(OSError):
            path = os.readlink(LINK, dir_fd=folder)
    except FileNotFoundError:
        # Being created, or almost removed. Only an empty folder is removed, and its creator tries again.
        with contextlib.suppress(OSError):
            os.rmdir(shm_root)
        return ""
    except OSError:
        return ""
    finally:
        os.close(folder)
    remove_shared(shm_root)
    return path


def _sweep_lock(path: str) -> None:
    """Remove a lock that was never put into its folder."""
    with contextlib.suppress(OSError):
        if _can_take(path):
            os.unlink(path)


def _can_take(path: str, dir_fd: int | None = None) -> bool:
    lock = trust.open_file(path, dir_fd, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


# ---------------------------------------------------------------------- the session's own folder
def make_lock(session_path: str) -> int:
    """Make and take the lock of a new session's folder; returns its descriptor.

    A process that finds it marked and can take it knows that the folder is a session's, and that this session has
    ended.

    Raises:
        OSError: it cannot be made.
    """
    lock = trust.create_file(f"{session_path}/lock")
    fcntl.flock(lock, fcntl.LOCK_EX)
    # A link needs no space for data: the session can be created on a full disk too. The link exists if only the
    # lock was gone.
    with contextlib.suppress(FileExistsError):
        os.symlink(os.path.basename(session_path), f"{session_path}/{_MARK}")
    return lock


def is_held(folder: int) -> bool:
    """Whether the lock in the open folder of a session is held, by its node or by its maker."""
    try:
        lock = trust.open_file("lock", folder, os.O_RDWR)
    except OSError:
        return False
    try:
        # A shared lock: two programs that check at the same time must not take each other for the node.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def lock_of_ended(session_path: str) -> int | None:
    """The lock of a session that has ended, taken; None if it lives, or is no session of this user's for certain."""
    try:
        folder = trust.open_folder(session_path)
        try:
            # Without the mark it is being created, or belongs to another program.
            if os.readlink(_MARK, dir_fd=folder) != os.path.basename(session_path):
                return None
            lock = trust.open_file("lock", folder, os.O_RDWR)
        finally:
            os.close(folder)
    except OSError:
        return None
    return trust.locked(lock)


def is_session(session_path: str) -> bool:
    """Whether this is the folder of a session of this user's, running or ended."""
    return _link_in(session_path, _MARK) == os.path.basename(session_path)


def _link_in(path: str, name: str) -> str | None:
    """What a link in a folder of this user's says; None if there is no such folder or link."""
    try:
        folder = trust.open_folder(path)
    except OSError:
        return None
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)


def withdraw(session_path: str) -> None:
    """The session is over: no program can join it any more. Harmless if another process did this already."""
    try:
        folder = trust.open_folder(session_path)
    except OSError:
        return
    try:
        for name in ("node.sock", "session.json", "head.json", *_debug_sockets(folder)):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    link = os.path.join(os.path.dirname(session_path), STARTED)
    with contextlib.suppress(OSError):
        if os.readlink(link) == os.path.basename(session_path):
            os.unlink(link)


def _debug_sockets(folder: int) -> list[str]:
    """Where debuggers could attach to tasks that stood at a breakpoint when the session ended."""
    try:
        debug = trust.open_folder("debug", folder)
    except OSError:
        return []
    try:
        return [f"debug/{name}" for name in os.listdir(debug) if name.endswith(".sock")]
    finally:
        os.close(debug)


def remove_session(session_path: str) -> None:
    """Remove the whole folder of a session that has ended."""
    # if the driver was killed before the node started, no process has removed them
    remove_folders(session_path)
    trust.remove(session_path, last=(_MARK, "lock"))
