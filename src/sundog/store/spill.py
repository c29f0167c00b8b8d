"""Moving segments: from shared memory to a file or a URL, and back.

Owns the copying and the layout of a file of spilled objects: one after another, each at a multiple of the page
size, so that an object can be mapped where it lies. Refuses to decide anything: `sundog.state.store` says what
moves. Everything here blocks and runs in the node's I/O threads.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from sundog.isolation import find_packages
from sundog.state.store_steps import Seen, SpillPlace
from sundog.store.credit import PAGE
from sundog.store.folders import Destination
from sundog.store.segments import RESTORED

if TYPE_CHECKING:
    from typing import BinaryIO

    from fsspec import AbstractFileSystem

_PIECE_BYTES = 8 << 20
_NOT_OBJECTS = ("free-", "packet-", "gone-", ".")

Moved = tuple[str, int, int]  # name, offset, length


class SpillTarget(Protocol):
    """Somewhere to put files of spilled objects."""

    def holds(self, url: str) -> bool:
        """Whether a file is here."""

    def write(self, file: str, sources: list[tuple[str, str]]) -> tuple[str, list[Moved]]:
        """Copy segments (name, path) into one new file; returns its URL. One that is gone is left out."""

    def read(self, place: SpillPlace, path: str) -> None:
        """Copy an object's bytes into a new file. Raises FileNotFoundError if they are gone."""

    def delete(self, url: str) -> None:
        """Remove a file."""

    def clear(self) -> None:
        """Remove everything of this session."""


def target_for(destination: Destination, session_name: str, folder: str) -> SpillTarget:
    """The target of a destination; `folder` is the local one, if it is local."""
    if destination.folder is not None:
        return FolderTarget(folder)
    return UrlTarget(f"{destination.url.rstrip('/')}/sundog-{session_name}", destination.options)


class FolderTarget:
    """A folder on this machine. The kernel copies from file to file; no byte passes through Python."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def holds(self, url: str) -> bool:
        """See `SpillTarget`."""
        return url.startswith(f"{self.folder}/")

    def write(self, file: str, sources: list[tuple[str, str]]) -> tuple[str, list[Moved]]:
        """See `SpillTarget`."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        path = f"{self.folder}/{file}"
        out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        moved: list[Moved] = []
        end = 0
        try:
            for name, given, length in _opened(sources):
                os.lseek(out, end, os.SEEK_SET)
                _send(out, given, 0, length)
                moved.append((name, end, length))
                end = (end + length + PAGE) & ~PAGE
        except BaseException:
            self.delete(path)
            raise
        finally:
            os.close(out)
        return path, moved

    def read(self, place: SpillPlace, path: str) -> None:
        """See `SpillTarget`."""
        given = os.open(place.url, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(given).st_size < place.offset + place.length:
                raise FileNotFoundError(place.url)  # the file is truncated
            out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _send(out, given, place.offset, place.length)
            finally:
                os.close(out)
        finally:
            os.close(given)

    def delete(self, url: str) -> None:
        """See `SpillTarget`."""
        with contextlib.suppress(OSError):
            os.unlink(url)

    def clear(self) -> None:
        """The folder is removed with the session's others (`folders.remove_folders`)."""


class UrlTarget:
    """Anything that fsspec can write to. `fsspec` is imported when the first object is spilled."""

    def __init__(self, prefix: str, options: dict[str, object]) -> None:
        self.prefix = prefix
        self._options = options
        self._found: tuple[AbstractFileSystem, str] | None = None

    def holds(self, url: str) -> bool:
        """See `SpillTarget`."""
        return url.startswith(f"{self.prefix}/")

    def _fs(self) -> tuple[AbstractFileSystem, str]:
        if self._found is None:
            find_packages()
            from fsspec.core import url_to_fs

            self._found = url_to_fs(self.prefix, **self._options)
        return self._found

    def write(self, file: str, sources: list[tuple[str, str]]) -> tuple[str, list[Moved]]:
        """See `SpillTarget`."""
        fs, root = self._fs()
        with contextlib.suppress(OSError):
            fs.makedirs(root, exist_ok=True)  # object stores have no folders, and may refuse this
        try:
            with fs.open(f"{root}/{file}", "wb") as out:
                moved = _pour(sources, out)
        except BaseException:
            with contextlib.suppress(Exception):  # report the first error, not this one
                fs.rm_file(f"{root}/{file}")
            raise
        return f"{self.prefix}/{file}", moved

    def read(self, place: SpillPlace, path: str) -> None:
        """See `SpillTarget`."""
        fs, _ = self._fs()
        with open(path, "wb") as out:
            for at in range(0, place.length, _PIECE_BYTES):
                start = place.offset + at
                end = start + min(_PIECE_BYTES, place.length - at)
                out.write(
                    fs.cat_file(place.url, start=start, end=end)
                )  # sorted by name: file systems list files in different orders
            if out.tell() != place.length:
                raise FileNotFoundError(place.url)

    def delete(self, url: str) -> None:
        """See `SpillTarget`."""
        with contextlib.suppress(OSError):
            self._fs()[0].rm_file(url)

    def clear(self) -> None:
        """See `SpillTarget`."""
        if self._found is not None:
            with contextlib.suppress(OSError):
                self._found[0].rm(self._found[1], recursive=True)


def _pour(sources: list[tuple[str, str]], out: BinaryIO) -> list[Moved]:
    """Write segments one after another to a file of fsspec's."""
    moved: list[Moved] = []
    end = 0
    for name, given, length in _opened(sources):
        for at in range(0, length, _PIECE_BYTES):
            out.write(os.pread(given, min(_PIECE_BYTES, length - at), at))
        moved.append((name, end, length))
        end += length
    return moved


def _opened(sources: list[tuple[str, str]]) -> Iterator[tuple[str, int, int]]:
    """Each segment that is still there, with a descriptor that is open until the next, and its length."""
    for name, source in sources:
        try:
            given = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # freed in the meantime
        try:
            yield name, given, data_length(given)
        finally:
            os.close(given)


def data_length(fd: int) -> int:
    """How much of a segment was ever written: a new one ends in a hole."""
    return os.lseek(fd, 0, os.SEEK_HOLE) if os.fstat(fd).st_size else 0


def _send(out: int, given: int, offset: int, length: int) -> None:
    end = offset + length
    while offset < end:
        sent = os.sendfile(out, given, offset, end - offset)
        if not sent:
            raise FileNotFoundError("the file became shorter while it was read")
        offset += sent


def scan(shm_root: str, remove: list[str]) -> tuple[dict[str, Seen], int]:
    """Remove files of free lists, then measure: every segment with an object, and the bytes of all other files."""
    for name in remove:
        with contextlib.suppress(OSError):
            os.unlink(f"{shm_root}/{name}")
    found: dict[str, Seen] = {}
    other = 0
    # File times come from the wall clock, which may be set; the store's state machine tolerates that.
    ahead_s = time.time() - time.monotonic()
    for folder in (shm_root, f"{shm_root}/{RESTORED}"):
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_dir(follow_symlinks=False) or entry.is_symlink():
                        continue
                    facts = entry.stat()
                    if entry.name.startswith(_NOT_OBJECTS):
                        other += 0 if entry.name.startswith(".") else facts.st_blocks * 512
                    else:
                        found[entry.name] = Seen(facts.st_blocks * 512, facts.st_ctime - ahead_s)
    return found, other


def restore(target: SpillTarget, place: SpillPlace, shm_root: str, name: str) -> None:
    """Bring an object back under its name; no process sees it before it is whole."""
    folder = f"{shm_root}/{RESTORED}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    part = f"{folder}/.part-{name}"
    try:
        target.read(place, part)
        os.rename(part, f"{folder}/{name}")
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
