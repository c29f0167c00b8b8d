"""Copies of directories, modules and archives inside the session, named by their content.

Owns: what is copied (size limit, links; ignores.py has the rules) and where it lies. Refuses: changing a copy once
it has its name, following links, and what is neither file, folder nor link. Runs in the submitting
process, on the calling thread, one copy at a time.

Guarantees: a copy appears under its final name only when complete, so that two processes making the same one
cannot disturb each other; its name is the hash of the very bytes that were copied.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from sundog import config, notices
from sundog.exceptions import RuntimeEnvSetupError
from sundog.plain import NamedTuple
from sundog.runtime_env import ignores

SIZE_LIMIT_BYTES = 512 * 1024 * 1024
# Of a folder over the size limit at most this many entries are examined; no folder may have ten times as many.
ENTRY_LIMIT = 50_000


def is_zip(path: str) -> bool:
    """Whether `path` is a file that can be unpacked (.zip, .whl)."""
    if not os.path.isfile(path):
        return False
    import zipfile

    return zipfile.is_zipfile(path)


def hash_of(value: object) -> str:
    """A short name for anything that JSON can say, equal in every process."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=10).hexdigest()


_copied: dict[tuple[str, str, tuple[str, ...]], tuple[str, str]] = {}
_copying = threading.Lock()


class _PackedFile(NamedTuple):
    """A file, folder or link to copy. Its name is relative to the root; a link has a target."""

    name: str
    path: str
    info: os.stat_result
    target: str = ""


def _looks(entry: _PackedFile) -> tuple[object, ...]:
    """What tells a changed file from one that was copied before. Folders change whenever Python writes a cache."""
    info = entry.info
    if stat.S_ISDIR(info.st_mode):
        return (entry.name,)
    return entry.name, info.st_size, info.st_mtime_ns, info.st_mode, entry.target


def store(path: str, folder: str, excludes: tuple[str, ...], inside: str) -> str:
    """The directory below `folder` that holds a copy of `path`, made now unless it is there already."""
    if os.path.dirname(path) == folder:
        return path  # a task's own environment, handed on to the tasks it submits
    with _copying:
        if not os.path.isdir(path) and is_zip(path):
            return _publish(folder, lambda target: _unzip(path, target))
        try:
            entries = (
                _entries(path, excludes) if os.path.isdir(path) else [_PackedFile("", path, os.stat(path))]
            )
        except OSError as exc:
            raise _unreadable(exc) from exc
        seen = hash_of([_looks(entry) for entry in entries])
        known = _copied.get((path, folder, excludes))
        if known is not None and known[0] == seen and os.path.isdir(known[1]):
            return known[1]
        made = _publish(folder, lambda target: _copy(path, entries, target, inside))
        _copied[path, folder, excludes] = (seen, made)
        return made


def _publish(folder: str, fill: Callable[[str], str]) -> str:
    """Fill a temporary directory, then rename it to the hash of what is in it."""
    # Not at the top: with their compressors these take longer to import than most programs' first task.
    import shutil
    import tempfile
    from zipfile import BadZipFile

    os.makedirs(folder, exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=".making-", dir=folder)
    try:
        final = os.path.join(folder, fill(temporary))
        try:
            os.rename(temporary, final)
        except OSError:
            if not os.path.isdir(final):
                raise
        return final
    except (OSError, BadZipFile) as exc:
        raise RuntimeEnvSetupError(f"Packaging for the runtime_env into {folder} failed: {exc}") from exc
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unreadable(exc: OSError) -> RuntimeEnvSetupError:
    return RuntimeEnvSetupError(
        f"{exc.filename} cannot be copied for the runtime_env: {exc.strerror}. Leave it out with excludes=[...] or "
        f"a .gitignore, or make it readable.",
        path=exc.filename,
    )


def _too_large(
    path: str, total: int, entries: Sequence[_PackedFile], *, at_least: bool
) -> RuntimeEnvSetupError:
    largest = sorted(entries, key=lambda entry: -entry.info.st_size)[:5]
    rows = ", ".join(f"{entry.name} ({entry.info.st_size / 2**20:.0f} MiB)" for entry in largest)
    return RuntimeEnvSetupError(
        f"{path} has {'at least ' * at_least}{total / 2**20:.0f} MiB, more than the "
        f"{SIZE_LIMIT_BYTES / 2**20:.0f} MiB that a runtime_env may copy. Largest: {rows}. Leave them out with "
        f"excludes=[...] or a .gitignore, or use absolute paths.",
        path=path,
        size_bytes=total,
        limit_bytes=SIZE_LIMIT_BYTES,
    )


def _copy(root: str, entries: Sequence[_PackedFile], target: str, inside: str) -> str:
    """Copy and hash in one pass, so that the name always fits what was copied. What is gone by now is left out."""
    # Below its own name for a module: equal files under two names are two packages.
    digest = hashlib.blake2b(inside.encode("utf-8", "surrogateescape"), digest_size=10)
    target = os.path.join(target, inside)
    left = SIZE_LIMIT_BYTES
    for entry in entries:
        destination = os.path.join(target, entry.name) if entry.name else target
        mode = entry.info.st_mode
        # The name of the copy is the same for every umask: of folders only their names count.
        header = f"{entry.name}\0{mode & 0o111 if stat.S_ISREG(mode) else 0}\0{stat.S_IFMT(mode)}\0{entry.target}\0"
        if stat.S_ISREG(mode):
            size = _copy_file(entry, destination, digest, header, left)
            if size > left:
                raise _too_large(root, SIZE_LIMIT_BYTES - left + size, entries, at_least=True)
            left -= size
            continue
        digest.update(header.encode("utf-8", "surrogateescape"))
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        if entry.target:
            os.symlink(entry.target, destination)
        else:
            os.makedirs(destination, exist_ok=True)
    return digest.hexdigest()


def _copy_file(entry: _PackedFile, destination: str, digest: hashlib.blake2b, header: str, limit: int) -> int:
    """Copy one file and return its size; a file that grows meanwhile is read until it passes `limit`."""
    try:
        # The file may have become a link or a pipe since it was listed: neither is followed, and neither
        # blocks.
        flags = os.O_NOFOLLOW | os.O_NONBLOCK if entry.name else os.O_NONBLOCK
        fd = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC | flags)
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return 0
        raise _unreadable(exc) from exc
    with open(fd, "rb", buffering=0) as reader:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return 0
        size = 0
        digest.update(header.encode("utf-8", "surrogateescape"))
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        with open(destination, "wb", buffering=0) as writer:
            try:
                while (chunk := reader.read(1 << 20)) and size <= limit:
                    digest.update(chunk)
                    writer.write(chunk)
                    size += len(chunk)
            except OSError as exc:
                exc.filename = exc.filename or entry.path
                raise
        digest.update(f"\0{size}\0".encode())
    os.chmod(destination, info.st_mode & 0o777 | 0o600)
    os.utime(destination, ns=(info.st_atime_ns, info.st_mtime_ns))
    return size


def _unzip(path: str, target: str) -> str:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        total = sum(info.file_size for info in archive.infolist())
        if total > SIZE_LIMIT_BYTES:
            raise RuntimeEnvSetupError(
                f"{path} unpacks to {total / 2**20:.0f} MiB, more than {SIZE_LIMIT_BYTES / 2**20:.0f} MiB.",
                path=path,
                size_bytes=total,
                limit_bytes=SIZE_LIMIT_BYTES,
            )
        if len(archive.infolist()) > 10 * ENTRY_LIMIT:
            raise RuntimeEnvSetupError(
                f"{path} has more than {10 * ENTRY_LIMIT:,} files and folders, which is more than a runtime_env may "
                f"unpack.",
                path=path,
            )
        archive.extractall(target)  # drops "..", drive letters and leading slashes from member names
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=10)).hexdigest()


def _entries(root: str, excludes: Sequence[str]) -> list[_PackedFile]:
    """What to copy of the folder `root`, in a fixed order, each folder before what is in it.

    Raises:
        RuntimeEnvSetupError: there is too much of it; found without looking at all of it.
    """
    found: list[_PackedFile] = []
    total = 0
    for entry in _walk(root, excludes):
        found.append(entry)
        if stat.S_ISREG(entry.info.st_mode):
            total += entry.info.st_size
        if len(found) > ENTRY_LIMIT and total > SIZE_LIMIT_BYTES:
            break
        if len(found) > 10 * ENTRY_LIMIT:
            raise RuntimeEnvSetupError(
                f"{root} has more than {10 * ENTRY_LIMIT:,} files and folders, which is more than a runtime_env may "
                f"copy. Leave some out with excludes=[...] or a .gitignore, or name a smaller folder.",
                path=root,
            )
    if total > SIZE_LIMIT_BYTES:
        raise _too_large(root, total, found, at_least=len(found) > ENTRY_LIMIT)
    return _with_targets(root, found)


def _walk(root: str, excludes: Sequence[str]) -> Iterator[_PackedFile]:
    own = [(0, ignores.check_excludes(excludes))] if excludes else []
    files = ignores.IGNORE_FILES[1:] if config.load().runtime_env_ignore_gitignore else ignores.IGNORE_FILES
    # A stack instead of recursion: a tree may be deeper than Python's stack.
    stack: list[tuple[str, str, list[ignores.Layer]]] = [(root, "", [])]
    while stack:
        folder, base, layers = stack.pop()
        try:
            inside = sorted(os.scandir(folder), key=lambda item: item.name)
        except (FileNotFoundError, NotADirectoryError):
            if not base:
                raise
            continue  # removed during the scan
        layers = layers + ignores.read_layers(folder, base, files)
        rules = layers + own
        below = []
        for item in inside:
            name = base + item.name
            try:
                info = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            is_dir = stat.S_ISDIR(info.st_mode)
            # Sockets, pipes and devices have no content.
            if not is_dir and not stat.S_ISREG(info.st_mode) and not stat.S_ISLNK(info.st_mode):
                continue
            if ignores.is_left_out(name, is_dir, rules):
                continue
            yield _PackedFile(name, item.path, info)
            if is_dir:
                below.append((item.path, name + "/", layers))
        stack += reversed(below)


def _with_targets(root: str, entries: list[_PackedFile]) -> list[_PackedFile]:
    """Give links their targets: relative if that is part of the copy, otherwise the place itself.

    So a copy is never larger than its root, and never has what a link out of the root leads to.
    """
    real_root = os.path.realpath(root)
    names = {entry.name for entry in entries} | {"."}
    outside = []
    for index, entry in enumerate(entries):
        if not stat.S_ISLNK(entry.info.st_mode):
            continue
        target = os.path.realpath(entry.path)
        inside = os.path.relpath(target, real_root)
        if inside in names:
            target = os.path.relpath(inside, os.path.dirname(entry.name) or ".")
        elif os.path.exists(target):
            outside.append(f"{entry.name} → {target}")
        entries[index] = entry._replace(target=target)
    if outside:
        more = f", and {len(outside) - 3} more" if len(outside) > 3 else ""
        _note_once(
            f"{root} has links that lead out of what is copied for the runtime_env ({', '.join(outside[:3])}{more}). "
            f"They stay links to the same places, whose content is not copied."
        )
    return entries


@lru_cache(maxsize=64)
def _note_once(text: str) -> None:
    notices.note(text)
