"""`list_logs` and `get_log`: what processes of a session wrote, by file, process, actor, task or job.

Owns the choice of the files, and of the lines that belong to one task or attempt; `observe/log_reading.py` reads them.
Works on a running session and on one that has ended: which process ran what is asked of the session's index. Runs in
the caller's process and thread.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from sundog.engines.sessions import is_alive
from sundog.observe import log_reading
from sundog.observe.index import opened
from sundog.plain import plain
from sundog.util.state.api import DEFAULT_RPC_TIMEOUT, get_node, get_task, list_actors, list_workers
from sundog.util.state.exception import RayStateApiException
from sundog.util.state.source import find_source

if TYPE_CHECKING:
    from sundog.util.state.common import GetLogOptions

_GROUPS = (
    ("worker-*.out*", "worker_out"),
    ("worker-*.err*", "worker_err"),
    ("job-driver-*", "driver"),
    ("*", "internal"),
)
_INTERVAL_S = 0.5
_CHUNK_BYTES = 64 << 10
_MOST = 10_000
_ID_MIN = 6  # digits of an id that name it


@plain(frozen=True)
class Log:
    """A log, or the part of it that one task or attempt wrote."""

    title: str
    path: str
    task: str = ""
    attempt: int | None = None


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
) -> dict[str, list[str]]:
    """Name the log files of a node, by group: "worker_out", "worker_err", "driver" (of submitted jobs), "internal".

    Args:
        glob_filter: only files whose name matches this pattern.

    Raises:
        AssertionError: neither `node_id` nor `node_ip` is given.
        RayStateApiException: there is no such node.
    """
    assert node_id is not None or node_ip is not None, "Name the node: node_id or node_ip."
    _check_node(address, node_id, node_ip)
    return files_of(find_source(address).path, glob_filter or "*")


def files_of(session_path: str, pattern: str) -> dict[str, list[str]]:
    """The log files of a session whose names match, by group."""
    found: dict[str, list[str]] = {}
    folder = os.path.join(session_path, "logs")
    for name in sorted(_names_below(folder)):
        if fnmatch.fnmatch(name, pattern):
            group = next(group for each, group in _GROUPS if fnmatch.fnmatch(name, each))
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
        follow: continue with what is written from now on, until the generator is closed.
        tail: only this many lines from the end; -1 is all.
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
    log = _which(address, options)
    for chunk in pieces(log, tail, follow=follow, interval_s=options.interval or _INTERVAL_S):
        if filter_ansi_code:
            chunk = remove_ansi_escape_codes(chunk.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        yield chunk if encoding is None else chunk.decode(encoding, errors or "strict")


def pieces(
    log: Log, tail: int = -1, *, follow: bool = False, interval_s: float = _INTERVAL_S
) -> Iterator[bytes]:
    """The bytes of a log, whole lines together; with `follow` without end."""
    if not follow:
        lines: Iterator[bytes] = log_reading.read(log.path, log.task, log.attempt)
        if tail >= 0:
            lines = iter(log_reading.read_tail(log.path, tail, log.task, log.attempt))
        yield from _chunks(lines)
        return
    follower = log_reading.Follower(log.path, log.task, log.attempt)
    try:
        text = follower.history(tail)
        while True:
            if text:
                yield text
            else:
                time.sleep(interval_s)
            text = follower.poll()
    finally:
        follower.close()


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


# ---------------------------------------------------------------------- which file
def worker_path(session_path: str, worker_id: str, suffix: str) -> str:
    """Where a worker's output ("out") or errors ("err") are."""
    return os.path.join(session_path, "logs", f"worker-{worker_id}.{suffix}")


def _names_below(folder: str) -> Iterator[str]:
    for base, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(base, name), folder)


def _check_node(address: str | None, node_id: str | None, node_ip: str | None) -> None:
    if node_id is not None and get_node(node_id, address) is None:
        raise RayStateApiException(f"There is no node {node_id}. See: sundog list nodes")
    if node_ip is not None and node_ip not in ("127.0.0.1", "localhost"):
        raise RayStateApiException(f"There is no node with the address {node_ip}. See: sundog list nodes")


def _which(address: str | None, options: GetLogOptions) -> Log:
    path = find_source(address).path
    if options.submission_id:
        return logs_of_driver(path, options.submission_id)[0]
    if options.filename:
        return log_named(path, options.filename)
    if options.task_id:
        return logs_of_task(path, options.task_id, options.suffix, options.attempt_number, address)[0]
    if options.actor_id:
        return logs_of_actor(path, options.actor_id, options.suffix)[-1]
    return logs_of_worker(path, str(options.pid), options.suffix)[-1]


def log_named(session_path: str, name: str) -> Log:
    """The log with this file name."""
    folder = os.path.realpath(os.path.join(session_path, "logs"))
    path = os.path.realpath(os.path.join(folder, name))
    if not path.startswith(folder + os.sep) or not os.path.isfile(path):
        raise RayStateApiException(
            f"There is no log {name!r} in {folder}. list_logs() lists the logs of this node."
        )
    return Log(name, path)


def logs_of_task(
    session_path: str, task_id: str, suffix: str, attempt: int | None = None, address: str | None = None
) -> list[Log]:
    """What a task printed, one log for each attempt that ran; or that of one attempt."""
    alive = is_alive(session_path)
    runs = _runs_told(task_id, address or session_path) if alive else _runs_recorded(session_path, task_id)
    if not runs:
        raise RayStateApiException(f"There is no task {task_id}. See: sundog list tasks")
    if attempt is not None:
        last = max(run.attempt for run in runs)
        runs = [run for run in runs if run.attempt == attempt]
        if not runs:
            has = f"its attempts are 0 to {last}" if last else "its only attempt is 0"
            raise RayStateApiException(
                f"There is no attempt {attempt} of task {task_id}: {has}. Lists and logs count attempts from 0, errors "
                "from 1."
            )
    logs = [
        Log(
            f"attempt {run.attempt} in pid {run.pid}",
            worker_path(session_path, run.worker_id, suffix),
            task_id,
            run.attempt,
        )
        for run in runs
        if run.worker_id
    ]
    if not logs:
        raise RayStateApiException(f"Task {task_id} has not run in any process: it is {runs[-1].state}.")
    return logs


@plain(frozen=True)
class _Run:
    """One attempt of a task, and where it ran."""

    attempt: int
    worker_id: str
    pid: int
    state: str = ""


def _runs_told(task_id: str, address: str) -> list[_Run]:
    """The attempts of a task of a running session."""
    found = get_task(task_id, address)
    rows = found if isinstance(found, list) else [found] if found is not None else []
    return [_Run(row.attempt_number, row.worker_id or "", row.worker_pid or 0, row.state) for row in rows]


def _runs_recorded(session_path: str, task_id: str) -> list[_Run]:
    """The attempts of a task of a session that has ended; the last of them may not have."""
    try:
        wanted = bytes.fromhex(task_id)
    except ValueError:
        return []
    with opened(session_path) as index:
        ended = index.rows(
            "SELECT a.attempt, lower(hex(p.process_id)), p.pid FROM attempts a JOIN processes p ON p.id = a.process "
            f"WHERE a.task_id = ? AND {index.holding(wanted)} AND p.role = 'worker' ORDER BY a.attempt",
            wanted,
        )
        begun = index.rows("SELECT lower(hex(process_id)), pid FROM processes WHERE begun = ?", wanted)
    runs = [_Run(*row) for row in ended]
    known = {run.worker_id for run in runs}
    runs += [_Run(len(runs), worker, pid) for worker, pid in begun if worker not in known]
    return runs


def logs_of_actor(session_path: str, wanted: str, suffix: str) -> list[Log]:
    """What an actor printed, by its id or name: one log for each process it had, the last one last."""
    found = [
        each
        for each in _processes(session_path)
        if wanted == each.actor_name or _is_id(wanted, each.actor_id)
    ]
    return _logs(session_path, found, suffix, f"actor {wanted}", "sundog list actors")


def logs_of_worker(session_path: str, wanted: str, suffix: str) -> list[Log]:
    """What a process printed, by its pid or worker id; several if a pid was used again."""
    found = [
        each for each in _processes(session_path) if wanted == str(each.pid) or _is_id(wanted, each.worker_id)
    ]
    what = f"process {wanted}"
    return _logs(session_path, found, suffix, what, "sundog list workers")


def logs_of_job(session_path: str, wanted: str, suffix: str) -> list[Log]:
    """What all workers of a job printed, one log for each."""
    found = [each for each in _processes(session_path) if wanted == each.job_id and each.is_worker]
    return _logs(session_path, found, suffix, f"job {wanted}", "sundog list jobs")


def logs_of_driver(session_path: str, submission_id: str = "*") -> list[Log]:
    """What the drivers of submitted jobs printed; other drivers print to their own terminal."""
    files = files_of(session_path, f"job-driver-{submission_id}.log").get("driver", [])
    if not files:
        raise RayStateApiException(
            "No output of a driver is kept here: a program that is not submitted as a job prints to its own terminal."
            if submission_id == "*"
            else f"There is no submitted job {submission_id!r} in this session. See: sundog list jobs"
        )
    return [log_named(session_path, name) for name in files]


# ---------------------------------------------------------------------- which process
@plain(frozen=True)
class _Process:
    """A process of the session, alive or not."""

    worker_id: str
    pid: int
    is_worker: bool
    job_id: str
    actor_id: str
    actor_name: str
    class_name: str


def _processes(session_path: str) -> list[_Process]:
    """All rows of the records, and the rows that only the node of a running session has."""
    with opened(session_path) as index:
        rows = index.rows(
            "SELECT lower(hex(process_id)), pid, role, lower(hex(job_id)), lower(hex(actor_id)), actor_name, "
            "class_name FROM processes ORDER BY id"
        )
    found = [_Process(row[0], row[1], row[2] == "worker", *(each or "" for each in row[3:])) for row in rows]
    if is_alive(session_path):  # recording may be switched off, or a process too young to have records
        known = {each.worker_id for each in found}
        actors = {row.pid: row for row in list_actors(session_path, limit=_MOST) if row.pid}
        for row in list_workers(session_path, limit=_MOST, detail=True):
            actor = actors.get(row.pid)
            if row.worker_id not in known:
                found.append(
                    _Process(
                        row.worker_id,
                        row.pid,
                        row.worker_type == "WORKER",
                        actor.job_id if actor is not None else "",
                        actor.actor_id if actor is not None else "",
                        (actor.name or "") if actor is not None else "",
                        actor.class_name if actor is not None else "",
                    )
                )
    return found


def _is_id(wanted: str, found: str) -> bool:
    return len(wanted) >= _ID_MIN and found.startswith(wanted)


def _logs(session_path: str, found: list[_Process], suffix: str, what: str, see: str) -> list[Log]:
    if found and not any(each.is_worker for each in found):
        raise RayStateApiException(
            f"The {what} is a driver, which prints to its own terminal: no log of it is kept."
        )
    logs = [
        Log(
            f"{each.class_name or 'worker'} pid {each.pid}", worker_path(session_path, each.worker_id, suffix)
        )
        for each in found
        if each.is_worker
    ]
    there = [log for log in logs if os.path.exists(log.path)]
    if logs and not there:
        raise RayStateApiException(f"The logs for {what} have been removed to save room. See: {see}")
    if not there:
        raise RayStateApiException(f"There is no {what} in this session that wrote a log. See: {see}")
    return there
