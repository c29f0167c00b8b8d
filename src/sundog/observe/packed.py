"""A session in one file: packed for a colleague, and unpacked again to be read.

::

    <session>/{records,rings,logs,…} ──pack──► FILE (zip) ──unpack──► <temp>/sundog-opened-<uid>/<key>/…

Owns the format: a zip with a first member `sundog-session.json` that says so. Refuses on the way in: other members than
plain files below known folders, files that grow beyond what the list of members says, zips that are no session, and
more than this user allows: a small zip can claim any number of files and bytes (`packed_max_bytes`, `_FILES_MAX`).
Nothing in a file is run or unpickled, and no data base in it is opened: the index is made anew from the records, for
the journal of an SQLite file can make SQLite delete any file of its reader. What was unpacked stays for the next
question; the newest few are kept. Runs in the process of a command.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

from sundog import config, trust
from sundog.observe import metric_files, segments, serve_files
from sundog.printable import printable

MARK = "sundog-session.json"
FORMAT = 1
_FOLDERS = ("logs", "records", "rings", metric_files.FOLDER)
_INDEX = f"{segments.FOLDER}/index."  # the index, its journal and its lock: `observe.index` makes them
_FILES = ("usage.json", "session.json", f"{serve_files.FOLDER}/{serve_files.STATUS}")
_KEEP = 3
# A session keeps the files of some thousand processes; no sub-folder of one is deeper than two.
_FILES_MAX = 200_000
_DEPTH_MAX = 8
_MARK_MAX_BYTES = 64 << 10
# The list of members is read in one piece, before any of it can be looked at: about 120 bytes for each.
_LIST_MAX_BYTES = 240 * _FILES_MAX
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class NotPacked(ValueError):
    """A file is no packed session. The text is half a sentence: why."""


def pack(name: str, path: str, file: str, version: str, progress: Callable[[int, int], None]) -> int:
    """Pack the folder of a session into one file for this user alone; returns how many bytes it has.

    Args:
        name: the session's.
        path: its folder.
        file: where to; written beside it first, so that there is never half of one.
        version: of sundog, for the reader of the file.
        progress: called with bytes done and bytes in all.

    Raises:
        OSError: it cannot be written.
    """
    members = _members(path)
    total = sum(size for _, size in members)
    done = 0
    temporary = f"{file}.{os.getpid()}.part"
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with (
            open(os.open(temporary, flags, 0o600), "w+b") as out,
            zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as zip_,
        ):
            zip_.writestr(MARK, json.dumps({"format": FORMAT, "name": name, "sundog": version}))
            for member, size in members:
                with contextlib.suppress(FileNotFoundError):  # the session continues, and removes what is old
                    zip_.write(os.path.join(path, member), member)
                done += size
                progress(done, total)
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return os.stat(file).st_size


def _members(path: str) -> list[tuple[str, int]]:
    found = []
    for folder in _FOLDERS:
        for place, _, names in os.walk(os.path.join(path, folder)):
            found += [os.path.relpath(os.path.join(place, name), path) for name in sorted(names)]
    found += [name for name in _FILES if os.path.isfile(os.path.join(path, name))]
    # Beside the metrics lies the token that Prometheus reads them with: the token stays out of the file.
    found = [
        name for name in found if not name.startswith(f"{metric_files.FOLDER}/") or metric_files.is_one(name)
    ]
    found = [name for name in found if not name.startswith(_INDEX)]
    looks = [(name, os.lstat(os.path.join(path, name))) for name in found]
    return [(name, info.st_size) for name, info in looks if stat.S_ISREG(info.st_mode)]


def unpack(file: str) -> tuple[str, str]:
    """The name of a packed session and the folder that it was unpacked to, now or before.

    Raises:
        NotPacked: the file is none, or not whole.
        OSError: it cannot be read, or there is no room to unpack it.
    """
    info = os.stat(file)
    if not stat.S_ISREG(info.st_mode):
        raise NotPacked("it is no regular file")  # the opening of a pipe would wait for its other end
    key = hashlib.sha256(repr((file, info.st_ino, info.st_size, info.st_mtime_ns)).encode()).hexdigest()[:20]
    # Another user may have made a folder of that name first: then a private one, which is found again.
    home, _ = trust.make_home(os.path.join(tempfile.gettempdir(), f"sundog-opened-{os.geteuid()}"))
    folder = os.path.join(home, key)
    if not is_unpacked(folder):
        part = tempfile.mkdtemp(prefix="part-", dir=home)
        try:
            _unpack(file, part)
            with contextlib.suppress(OSError):  # another command was quicker
                os.rename(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        _remove_old(home)
    with contextlib.suppress(OSError):
        os.utime(folder)
    return name_of(folder), folder


def is_unpacked(folder: str) -> bool:
    """Whether a folder is an unpacked session."""
    return os.path.isfile(os.path.join(folder, MARK))


def name_of(folder: str) -> str:
    """The name of an unpacked session, for people: it was chosen where the file was made."""
    try:
        with open(os.path.join(folder, MARK), encoding="utf-8") as text:
            return printable(str(json.load(text)["name"]))
    except (OSError, ValueError, KeyError, TypeError):
        return os.path.basename(folder)


class _Bounded:
    """A file whose reader may not ask for more than a list of members of `_LIST_MAX_BYTES` at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.close = file.seek, file.tell, file.close
        self.seekable = file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > _LIST_MAX_BYTES:
            raise NotPacked(f"it claims to hold more than {_FILES_MAX:,} files, which no session has")
        return self._file.read(size)


def _unpack(file: str, folder: str) -> None:
    try:
        with open(file, "rb") as opened, zipfile.ZipFile(cast("BinaryIO", _Bounded(opened))) as zip_:
            mark = zip_.getinfo(MARK)
            if mark.file_size > _MARK_MAX_BYTES or mark.compress_type not in _METHODS:
                raise NotPacked(f"its member {MARK} is not as a session has it")
            facts = json.loads(zip_.read(MARK))
            if facts["format"] > FORMAT:
                raise NotPacked(f"a newer sundog ({facts.get('sundog')}) wrote it; this one cannot read it")
            _check_members(zip_.infolist(), folder)
            for member in zip_.infolist():
                if member.filename.startswith(
                    _INDEX
                ):  # an earlier sundog packed its own; another's is not trusted
                    continue
                target = os.path.join(folder, member.filename)
                os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
                with zip_.open(member) as source, open(target, "xb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
    except NotPacked:
        raise
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise NotPacked(f"it is damaged, or not a file of sundog session export ({error})") from None
    except (KeyError, ValueError, TypeError, NotImplementedError, RuntimeError):
        raise NotPacked("it is a zip, but not one of sundog session export") from None


def _check_members(members: list[zipfile.ZipInfo], folder: str) -> None:
    """Look at all that is to be unpacked before the first byte is. Raises NotPacked."""
    if len(members) > _FILES_MAX:
        raise NotPacked(f"it has {len(members):,} files, and at most {_FILES_MAX:,} are unpacked")
    for member in members:
        _check_name(member.filename)
        if member.compress_type not in _METHODS:
            raise NotPacked(f"its member {member.filename!r} is compressed as no session is")
    if len({member.filename for member in members}) < len(members):
        raise NotPacked("it has two members of one name, which no session has")
    size, most = sum(member.file_size for member in members), config.load().packed_max_bytes
    if size > most:
        raise NotPacked(
            f"it unpacks to {size:,} bytes, and at most {most:,} are allowed; "
            f"the setting packed_max_bytes allows more (SUNDOG_packed_max_bytes={size})"
        )
    free = shutil.disk_usage(folder).free
    if size > free:
        raise NotPacked(f"it unpacks to {size:,} bytes, and {folder} has {free:,} bytes free")


def _check_name(name: str) -> None:
    parts = name.split("/")
    known = name in (MARK, *_FILES) or (len(parts) > 1 and parts[0] in _FOLDERS)
    if not known or len(parts) > _DEPTH_MAX or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise NotPacked(f"it contains {name!r}, which is not a file of a session")


def _remove_old(home: str) -> None:
    with contextlib.suppress(OSError):
        paths = [os.path.join(home, name) for name in os.listdir(home) if not name.startswith("part-")]
        for path in sorted(paths, key=os.path.getmtime, reverse=True)[_KEEP:]:
            trust.remove(path)
