"""Copies of directories, modules and archives inside the session, named by their content.

Owns: what is copied (gitignore rules, size limit) and where it lies. Refuses: changing a copy once it has its
name. Runs in the submitting process, on the calling thread, one copy at a time.

Guarantees: a copy appears under its final name only when complete, so that two processes making the same one
cannot disturb each other; its name is the hash of the very bytes that were copied.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sundog.exceptions import RuntimeEnvSetupError

SIZE_LIMIT_BYTES = 512 * 1024 * 1024
DEFAULT_EXCLUDES = (".git/", ".venv/", "venv/", "__pycache__/")


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


def store(path: str, folder: str, excludes: tuple[str, ...], inside: str) -> str:
    """The directory below `folder` that holds a copy of `path`, made now unless it is there already."""
    if os.path.dirname(path) == folder:
        return path  # a task's own environment, handed on to the tasks it submits
    with _copying:
        if not os.path.isdir(path) and is_zip(path):
            return _publish(folder, lambda target: _unzip(path, target))
        files = list(_walk(path, excludes)) if os.path.isdir(path) else [("", path, os.stat(path))]
        _check_size(path, files)
        seen = hash_of([(name, info.st_size, info.st_mtime_ns, info.st_mode) for name, _, info in files])
        known = _copied.get((path, folder, excludes))
        if known is not None and known[0] == seen and os.path.isdir(known[1]):
            return known[1]
        made = _publish(folder, lambda target: _copy(files, target, inside))
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


def _check_size(path: str, files: Sequence[tuple[str, str, os.stat_result]]) -> None:
    total = sum(info.st_size for _, _, info in files)
    if total <= SIZE_LIMIT_BYTES:
        return
    largest = sorted(files, key=lambda file: -file[2].st_size)[:5]
    rows = ", ".join(f"{name} ({info.st_size / 2**20:.0f} MiB)" for name, _, info in largest)
    raise RuntimeEnvSetupError(
        f"{path} has {total / 2**20:.0f} MiB, more than the {SIZE_LIMIT_BYTES / 2**20:.0f} MiB that a "
        f"runtime_env may copy. Largest: {rows}. Leave them out with excludes=[...] or a .gitignore, or "
        f"use absolute paths.",
        path=path,
        size_bytes=total,
        limit_bytes=SIZE_LIMIT_BYTES,
    )


def _copy(files: Sequence[tuple[str, str, os.stat_result]], target: str, inside: str) -> str:
    """Copy and hash in one pass, so that the name always fits what was copied."""
    # Below its own name for a module: equal files under two names are two packages.
    digest = hashlib.blake2b(inside.encode("utf-8", "surrogateescape"), digest_size=10)
    target = os.path.join(target, inside)
    for name, source, info in files:
        destination = os.path.join(target, name) if name else target
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        digest.update(f"{name}\0{info.st_mode & 0o111}\0{info.st_size}\0".encode("utf-8", "surrogateescape"))
        with open(source, "rb") as reader, open(destination, "wb") as writer:
            while chunk := reader.read(1 << 20):
                digest.update(chunk)
                writer.write(chunk)
        os.chmod(destination, stat.S_IMODE(info.st_mode) | 0o600)
        os.utime(destination, ns=(info.st_atime_ns, info.st_mtime_ns))
    return digest.hexdigest()


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
        archive.extractall(target)  # drops "..", drive letters and leading slashes from member names
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=10)).hexdigest()


def _walk(root: str, excludes: Sequence[str]) -> Iterator[tuple[str, str, os.stat_result]]:
    """Regular files below `root` that no rule leaves out: (relative name, path, stat), in a fixed order."""
    defaults = [rule for line in DEFAULT_EXCLUDES if (rule := _rule(line, ""))]
    own = [rule for line in excludes if (rule := _rule(line, ""))]

    def visit(folder: str, base: str, ignored: list[_Rule], above: tuple[str, ...]) -> Iterator[Any]:
        gitignore = os.path.join(folder, ".gitignore")
        if os.path.isfile(gitignore):
            with open(gitignore, encoding="utf-8", errors="replace") as file:
                ignored = ignored + [rule for line in file if (rule := _rule(line, base))]
        for entry in sorted(os.scandir(folder), key=lambda item: item.name):
            name = base + entry.name
            try:
                info = entry.stat()
            except OSError:
                continue  # a dangling link, or a file removed while we look
            is_dir = stat.S_ISDIR(info.st_mode)
            if _is_left_out(name, is_dir, defaults + ignored + own):
                continue
            if stat.S_ISREG(info.st_mode):
                yield name, entry.path, info
            elif is_dir and (real := os.path.realpath(entry.path)) not in above:
                # Links to directories are followed, except those that lead back up.
                yield from visit(entry.path, name + "/", ignored, (*above, real))

    return visit(root, "", [], (os.path.realpath(root),))


@dataclass(frozen=True, slots=True)
class _Rule:
    regex: re.Pattern[str]
    dirs_only: bool
    keeps: bool


def _is_left_out(name: str, is_dir: bool, rules: Sequence[_Rule]) -> bool:
    # As in git, the last rule that matches decides.
    for rule in reversed(rules):
        if (is_dir or not rule.dirs_only) and rule.regex.fullmatch(name):
            return not rule.keeps
    return False


def _rule(line: str, base: str) -> _Rule | None:
    """One line of a .gitignore that stands in directory `base`."""
    text = line.rstrip("\r\n")
    text = text if text.endswith("\\ ") else text.rstrip(" ")
    if not text or text.startswith("#"):
        return None
    keeps = text.startswith("!")
    text = text[keeps:]
    dirs_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    anchored = "/" in text
    body = _glob_regex(text.lstrip("/"))
    prefix = re.escape(base) + ("" if anchored else "(?:.*/)?")
    return _Rule(re.compile(prefix + body, re.DOTALL), dirs_only, keeps)


_GLOB = re.compile(
    r"(?P<any_dirs>\*\*/)|(?P<all>\*\*)|(?P<star>\*)|(?P<one>\?)"
    r"|(?P<set>\[[!^]?\]?[^\]]*\])|\\?(?P<char>.)",
    re.DOTALL,
)


def _glob_regex(pattern: str) -> str:
    simple = {"any_dirs": "(?:.*/)?", "all": ".*", "star": "[^/]*", "one": "[^/]"}
    out = []
    for found in _GLOB.finditer(pattern):
        kind = found.lastgroup or "char"
        if kind == "set":
            inner = found["set"][1:-1].replace("\\", "\\\\")
            out.append(f"[^/{inner[1:]}]" if inner[:1] in "!^" else f"[{inner}]")
        else:
            out.append(simple.get(kind) or re.escape(found["char"]))
    return "".join(out)
