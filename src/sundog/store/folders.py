"""Where objects go: the folders of a session in shared memory and on disk, or a URL, as the settings say.

Owns the reading of `object_spilling_directory` and `object_spilling_config` (names and shapes of Ray's), the making
of the folders, and their removal, which anyone may have to do who buries a session: the node, its zygote, or the
next session. `<session>/spilled_objects` is the folder, or holds links to the folders that were asked for.
Used by the driver, the node and the zygote, each on its main thread.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, NamedTuple

_KINDS = ("filesystem", "smart_open", "fsspec")


class Destination(NamedTuple):
    """A place for spilled objects: a URL and what its file system needs to be told."""

    url: str
    options: dict[str, Any]

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
        where = params["directory_path" if kind == "filesystem" else "uri"]
    except (ValueError, KeyError, TypeError, AttributeError):
        kind = where = None
        params = {}
    urls = [where] if isinstance(where, str) else where
    if (
        kind not in _KINDS
        or not isinstance(urls, list)
        or not all(isinstance(url, str) for url in urls)
        or not urls
    ):
        raise ValueError(
            f"object_spilling_config is {config_json!r}, which names no place. Write it like "
            '\'{"type": "filesystem", "params": {"directory_path": "/mnt/spill"}}\' or '
            '\'{"type": "smart_open", "params": {"uri": "s3://bucket/path"}}\'.'
        )
    return [Destination(url, params.get("storage_options") or {}) for url in urls]


def make_folders(session_path: str, name: str, wanted: list[Destination]) -> list[str]:
    """Make the local folders of a session; the first is also for objects that find no room in memory.

    Raises:
        ValueError: a folder cannot be made, or a URL needs the package fsspec.
    """
    own = f"{session_path}/spilled_objects"
    if not wanted:
        return [own]  # made when it is needed
    made = []
    os.makedirs(own, exist_ok=True)
    for number, destination in enumerate(wanted):
        if destination.folder is None:
            _require_fsspec(destination.url)
            continue
        folder = os.path.join(os.path.abspath(destination.folder), f"sundog-{name}")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"Objects cannot be spilled to {destination.folder}: {error.strerror}. Give a folder that this user "
                "can write with object_spilling_directory."
            ) from None
        os.symlink(folder, f"{own}/to-{number}")
        made.append(folder)
    return made or [own]


def make_shared(shm_root: str, session_path: str) -> None:
    """Make the folder of a session's shared memory, with a link to the session.

    Driver and node both do this as soon as the node knows of the session, for neither can tell which is first.

    Raises:
        OSError: it cannot be made, or is somebody else's.
    """
    try:
        os.mkdir(shm_root, 0o700)
    except FileExistsError:
        if os.lstat(shm_root).st_uid != os.geteuid():
            raise
    with contextlib.suppress(FileExistsError):
        os.symlink(session_path, f"{shm_root}/.session")


def _require_fsspec(url: str) -> None:
    from importlib.util import find_spec

    if find_spec("fsspec") is None:
        raise ValueError(
            f"Spilling to {url} needs the package fsspec, which is not installed. Install it with: "
            "pip install 'sundog[spill]'"
        )


def remove_folders(session_path: str) -> None:
    """Remove the spilled objects of a session that has ended."""
    import shutil  # with four compressors in tow, and every start imports this module

    own = f"{session_path}/spilled_objects"
    with contextlib.suppress(OSError):
        for name in os.listdir(own):
            path = f"{own}/{name}"
            if os.path.islink(path):
                shutil.rmtree(os.path.realpath(path), ignore_errors=True)
    shutil.rmtree(own, ignore_errors=True)
