"""`list_logs` and `get_log`: what processes of the session wrote, by file, process, actor or task.

Owns the choice of the file and of the lines that belong to one task. Reads the files of the session's folder directly,
in the caller's process and thread; the marks between a worker's lines (`wire/marks.py`) say whose lines follow, and
are left out. A log that was rotated is read from its oldest part on.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections import deque
from collections.abc import Generator, Iterator
from itertools import chain
from typing import Any

from sundog.util.state.api import DEFAULT_RPC_TIMEOUT, get_actor, get_node, get_task, list_workers
from sundog.util.state.exception import RayStateApiException
from sundog.util.state.source import find_source
from sundog.wire.marks import LITERAL, MARK, find_mark

_GROUPS = (("worker-*.out*", "worker_out"), ("worker-*.err*", "worker_err"), ("*", "internal"))
_INTERVAL_S = 0.5
_CHUNK_BYTES = 64 << 10


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
) -> dict[str, list[str]]:
    """Name the log files of a node, by group: "worker_out", "worker_err", "internal".

    Args:
        glob_filter: only files whose name matches this pattern.

    Raises:
        AssertionError: neither `node_id` nor `node_ip` is given.
        RayStateApiException: there is no such node.
    """
    assert node_id is not None or node_ip is not None, "Say on which node: node_id or node_ip."
    _check_node(address, node_id, node_ip)
    found: dict[str, list[str]] = {}
    for name in sorted(_names_below(_folder(address))):
        if fnmatch.fnmatch(name, glob_filter or "*"):
            group = next(group for pattern, group in _GROUPS if fnmatch.fnmatch(name, pattern))
            found.setdefault(group, []).append(name)
    return found


def get_log(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    filename: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    follow: bool = False,
    tail: int = -1,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    suffix: str = "out",
    encoding: str | None = "utf-8",
    errors: str | None = "strict",
    submission_id: str | None = None,
    attempt_number: int = 0,
    _interval: float | None = None,
    filter_ansi_code: bool = False,
) -> Generator[Any, None, None]:
    """Read a log in pieces: a file by its name, or what an actor, a task or a process wrote.

    Args:
        follow: go on with what is written from now on, until the generator is closed.
        tail: only so many lines from the end; -1 is all.
        suffix: "out" or "err", when the log is not named.
        encoding: None gives bytes.
        attempt_number: which attempt of the task.
        filter_ansi_code: leave colours out.

    Raises:
        ValueError: nothing says which log, or on which node.
        RayStateApiException: there is no such log.
    """
    from sundog.util.state.common import GetLogOptions, remove_ansi_escape_codes

    options = GetLogOptions(
        timeout=timeout,
        node_id=node_id,
        node_ip=node_ip,
        filename=filename,
        actor_id=actor_id,
        task_id=task_id,
        pid=pid,
        lines=tail,
        interval=_interval,
        media_type="stream" if follow else "file",
        suffix=suffix,
        submission_id=submission_id,
        attempt_number=attempt_number,
    )
    _check_node(address, node_id, node_ip)
    path, only = _which(address, options)
    end = os.path.getsize(path) if follow else None
    lines: Iterator[bytes] = _lines(path, only, end)
    if tail >= 0:
        lines = iter(deque(lines, maxlen=tail))
    chunks = _chunks(lines)
    if end is not None:
        chunks = chain(chunks, _later(path, only, end, options.interval or _INTERVAL_S))
    for chunk in chunks:
        if filter_ansi_code:
            chunk = remove_ansi_escape_codes(chunk.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        yield chunk if encoding is None else chunk.decode(encoding, errors or "strict")


# ---------------------------------------------------------------------- which file
def _folder(address: str | None) -> str:
    return os.path.join(find_source(address).path, "logs")


def _names_below(folder: str) -> Iterator[str]:
    for base, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(base, name), folder)


def _check_node(address: str | None, node_id: str | None, node_ip: str | None) -> None:
    if node_id is not None and get_node(node_id, address) is None:
        raise RayStateApiException(f"There is no node {node_id}. See: sundog list nodes")
    if node_ip is not None and node_ip not in ("127.0.0.1", "localhost"):
        raise RayStateApiException(f"There is no node with the address {node_ip}. See: sundog list nodes")


def _which(address: str | None, options: Any) -> tuple[str, str]:
    """The file, and the task whose lines are wanted ("" is all)."""
    if options.submission_id:
        raise RayStateApiException(f"There is no submitted job {options.submission_id!r} in this session.")
    if options.filename:
        folder = os.path.realpath(_folder(address))
        path = os.path.realpath(os.path.join(folder, options.filename))
        if not path.startswith(folder + os.sep) or not os.path.isfile(path):
            raise RayStateApiException(
                f"There is no log {options.filename!r} in {folder}. list_logs() names those that are there."
            )
        return path, ""
    if options.task_id:
        return _task_log(address, options)
    if options.actor_id:
        actor = get_actor(options.actor_id, address)
        if actor is None:
            raise RayStateApiException(f"There is no actor {options.actor_id}. See: sundog list actors")
        return _worker_log(address, actor.pid, f"actor {options.actor_id}", options.suffix), ""
    return _worker_log(address, options.pid, f"pid {options.pid}", options.suffix), ""


def worker_path(session_path: str, worker_id: str, suffix: str) -> str:
    """Where a worker's output ("out") or errors ("err") are."""
    return os.path.join(session_path, "logs", f"worker-{worker_id}.{suffix}")


def read_tail(path: str, lines: int) -> list[bytes]:
    """The last lines of a log, without marks."""
    return list(deque(_lines(path, "", None), maxlen=lines))


def _task_log(address: str | None, options: Any) -> tuple[str, str]:
    found = get_task(options.task_id, address)
    rows = found if isinstance(found, list) else [found] if found is not None else []
    row = next((row for row in rows if row.attempt_number == options.attempt_number), None)
    if row is None:
        raise RayStateApiException(
            f"There is no attempt {options.attempt_number} of a task {options.task_id}. See: sundog list tasks"
        )
    if not row.worker_id:
        raise RayStateApiException(f"Task {options.task_id} has not run in any process: it is {row.state}.")
    return os.path.join(_folder(address), f"worker-{row.worker_id}.{options.suffix}"), options.task_id


def _worker_log(address: str | None, pid: int | None, what: str, suffix: str) -> str:
    for row in list_workers(address, [("pid", "=", pid)], 1000) if pid else ():
        path = os.path.join(_folder(address), f"worker-{row.worker_id}.{suffix}")
        if os.path.exists(path):
            return path
    raise RayStateApiException(f"No process of this session wrote a log for {what}. See: sundog list workers")


# ---------------------------------------------------------------------- which lines
def _parts(path: str) -> list[str]:
    """The parts of a log that was rotated, the oldest first."""
    older = []
    number = 1
    while os.path.exists(f"{path}.{number}"):
        older.append(f"{path}.{number}")
        number += 1
    return [*reversed(older), path]


class _Reader:
    """Takes the lines of a log in order; knows whose they are."""

    def __init__(self, only: str) -> None:
        self.only = only
        self.task = ""

    def take(self, line: bytes) -> bytes | None:
        """The line as it was printed, if it is wanted; None for a mark, or a line of somebody else."""
        ended = line.endswith(b"\n")
        body = line[:-1] if ended else line
        wanted = not self.only or self.task == self.only
        found = find_mark(body)
        if found is None:
            return line.replace(LITERAL, MARK) if wanted else None
        start, key, value = found
        if key == b"name":
            self.task = value.partition(b"&")[2].decode("ascii", "replace")
        return body[:start].replace(LITERAL, MARK) + b"\n" if start and wanted else None


def _lines(path: str, only: str, end: int | None) -> Iterator[bytes]:
    """The wanted lines of a log; of its newest part only the first `end` bytes, if that is given."""
    reader = _Reader(only)
    for part in _parts(path):
        try:
            with open(part, "rb") as file:
                whole = end is None or part != path
                for line in file if whole else file.read(end).splitlines(keepends=True):
                    taken = reader.take(line)
                    if taken is not None:
                        yield taken
        except OSError:
            continue  # rotated away meanwhile


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _later(path: str, only: str, position: int, interval_s: float) -> Iterator[bytes]:
    """What is written after `position`; whole lines only."""
    reader = _Reader(only)
    rest = b""
    for line in _lines_before(path, position):
        reader.take(line)  # whose lines come next
    while True:
        try:
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size < position:
                    position, rest = 0, b""  # rotated
                file.seek(position)
                data = file.read()
        except OSError:
            data = b""
        position += len(data)
        *whole, rest = (rest + data).split(b"\n")
        taken = [reader.take(line + b"\n") for line in whole]
        text = b"".join(line for line in taken if line is not None)
        if text:
            yield text
        time.sleep(interval_s)


def _lines_before(path: str, position: int) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            yield from file.read(position).splitlines(keepends=True)
    except OSError:
        return
