"""What a test left behind: processes, threads, file descriptors and shared-memory segments.

Owns the question "is anything here now that was not here before?". It refuses to judge what was there before
the test began, and what belongs to another session on the same machine. Runs in the test process, in its main
thread.

Each test gets a temporary folder of its own (``SUNDOG_temp_dir``), whose path is the *marker* by which even a
process that has left our process tree is known again:

    the test ──starts──► node ──► zygote ──► worker        children of the test: found by descent
                          │
                          └─ daemonised, reparented, renamed: found because its command line, environment,
                             mappings or open files name the marker (a title set by setproctitle overwrites
                             the environment the kernel shows, hence the four places)
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path

import psutil

GRACE_S = 20.0
"""How long things may take to vanish. A leak stays for ever, so this may be long: on a busy machine a process that ends
may stand still for seconds. That a session vanishes within 2 s in which it can run is judged by `drivers.Vanishing`."""

POLL_S = 0.01
LOOKS = 50
"""How often to look at the least: where so many looks take longer than the grace, so does everything else."""

SHM_DIR = Path("/dev/shm")
SHM_PREFIX = "sundog"


@dataclass(frozen=True)
class Snapshot:
    """Everything countable at one moment. Threads are held themselves, since idents are used again."""

    marker: str
    processes: dict[tuple[int, float], str]
    threads: frozenset[threading.Thread]
    fds: dict[int, str]
    segments: frozenset[str]
    all_pids: frozenset[int] = field(repr=False)

    @classmethod
    def take(cls, marker: str, before: Snapshot | None = None) -> Snapshot:
        """Look around. Only processes younger than ``before`` are searched for the marker."""
        all_pids = frozenset(psutil.pids())
        fresh_pids = all_pids - before.all_pids if before else frozenset()
        return cls(
            marker=marker,
            processes=_processes(marker, fresh_pids),
            threads=frozenset(threading.enumerate()),
            fds=_fds(),
            segments=_segments(),
            all_pids=all_pids,
        )


def find(before: Snapshot, grace_s: float = GRACE_S) -> list[str]:
    """Name what is here now and was not in ``before``, after giving it ``grace_s`` seconds to vanish.

    Returns:
        One line for each leak; empty when the test cleaned up after itself.
    """
    leaks = compare(before, Snapshot.take(before.marker, before))
    if not leaks:
        return []
    # Only now, for it costs tens of milliseconds: what a reference cycle keeps alive is garbage, not a leak.
    gc.collect()
    deadline = time.monotonic() + grace_s
    looks_left = LOOKS if grace_s else 0
    while True:
        leaks = compare(before, Snapshot.take(before.marker, before))
        looks_left -= 1
        if not leaks or (looks_left <= 0 and time.monotonic() >= deadline):
            return leaks
        time.sleep(POLL_S)


def compare(before: Snapshot, after: Snapshot) -> list[str]:
    """List what ``after`` has and ``before`` had not, a line each."""
    leaks = [
        f"process {after.processes[key]}" for key in sorted(after.processes.keys() - before.processes.keys())
    ]
    for thread in sorted(after.threads - before.threads, key=lambda thread: thread.name):
        kind = "daemon thread" if thread.daemon else "thread"
        leaks.append(f"{kind} {thread.name!r} (ident {thread.ident}, native id {thread.native_id})")
    for fd, target in sorted(after.fds.items()):
        # A number that now points elsewhere was closed and given to something new.
        if before.fds.get(fd) != target:
            leaks.append(f"fd {fd} -> {target}")
    for name in sorted(after.segments - before.segments):
        if not _in_use_by_others(name, before.marker):
            leaks.append(f"shared memory {SHM_DIR / name}")
    return leaks


def kill_processes(before: Snapshot) -> None:
    """End the processes that a test left, so that they disturb no later one. Safe against reused pids."""
    after = Snapshot.take(before.marker, before)
    for pid, created in after.processes.keys() - before.processes.keys():
        try:
            process = psutil.Process(pid)
            if process.create_time() == created:
                process.kill()
                if process.ppid() == os.getpid():
                    process.wait(timeout=GRACE_S)
        except (psutil.Error, ProcessLookupError):
            continue


def _processes(marker: str, fresh_pids: Iterable[int]) -> dict[tuple[int, float], str]:
    """Find our descendants, and whoever among ``fresh_pids`` names the marker."""
    me = os.getpid()
    found = _descendants(me)
    # The kernel's lists of children may leave one out while its sibling ends: hence parents are asked for too.
    found.update(
        pid
        for pid in fresh_pids
        if pid != me
        and pid not in found
        and (_parent(pid) in (me, *found) or _mentions(pid, [marker.encode()]))
    )
    # The standard library starts one tracker per process, and stops it only when the interpreter ends.
    found.discard(getattr(resource_tracker._resource_tracker, "_pid", None) or -1)
    described = {}
    for pid in found:
        try:
            process = psutil.Process(pid)
            described[pid, process.create_time()] = _describe(process)
        except psutil.NoSuchProcess:
            continue
    return described


def _descendants(pid: int) -> set[int]:
    """The processes below ``pid``, from the kernel's own lists: no need to read about every other process."""
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):  # a kernel built without them
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    found: set[int] = set()
    open_ends = [pid]
    while open_ends:
        parent = open_ends.pop()
        children = _children(parent) - found
        found |= children
        open_ends.extend(children)
    return found


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found.update(map(int, file.read().split()))
        except OSError:
            continue  # a thread that ended: another one has its children now
    return found


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name before it stands in parentheses and may hold anything, even one of those.
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return None


def _describe(process: psutil.Process) -> str:
    with process.oneshot():
        try:
            words = " ".join(process.cmdline()).strip() or process.name()
        except psutil.ZombieProcess:
            words = process.name()
        return f"{process.pid} ({process.status()}, parent {process.ppid()}): {words[:200]}"


def _mentions(pid: int, tokens: list[bytes]) -> bool:
    """Whether a process names one of ``tokens`` in its command line, environment, mappings or open files."""
    folder = Path(f"/proc/{pid}")
    deadline = time.monotonic() + GRACE_S
    while _is_being_started(folder) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for name in ("cmdline", "environ", "maps"):
        try:
            content = (folder / name).read_bytes()
        except OSError:
            continue  # it ended, or it is another user's
        if any(token in content for token in tokens):
            return True
    try:
        fds = os.listdir(folder / "fd")
    except OSError:
        return False
    for fd in fds:
        try:
            target = os.fsencode(os.readlink(folder / "fd" / fd))
        except OSError:
            continue
        if any(token in target for token in tokens):
            return True
    return False


def _is_being_started(folder: Path) -> bool:
    """Whether the kernel has not laid out a new program's arguments yet: until then it names nothing.

    A kernel thread or a zombie has no arguments either, but no program.
    """
    try:
        return not (folder / "cmdline").read_bytes() and bool(os.readlink(folder / "exe"))
    except OSError:
        return False


def _fds() -> dict[int, str]:
    """Our open descriptors with what each points at (sockets and pipes carry their inode in it)."""
    tracker_fd = getattr(resource_tracker._resource_tracker, "_fd", None)
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor by which the folder itself was listed
        if int(name) != tracker_fd:
            found[int(name)] = target
    return found


def _segments() -> frozenset[str]:
    try:
        return frozenset(name for name in os.listdir(SHM_DIR) if name.startswith(SHM_PREFIX))
    except FileNotFoundError:
        return frozenset()


def _in_use_by_others(segment: str, marker: str) -> bool:
    """Whether a live process that is no part of this test works with ``segment``: then it is not ours.

    Two test runs on one machine see each other's segments. A session's shared memory has a link to its folder, which
    is below the marker for the sessions of this test. Without one (a session just begun, or about to end) a foreign
    process that knows the session's name is the proof.
    """
    try:
        return not os.readlink(SHM_DIR / segment / ".session").startswith(marker)
    except OSError:
        pass
    if not (SHM_DIR / segment).exists():
        return True  # gone since we looked
    session = segment.removeprefix(SHM_PREFIX).strip("-_.")
    tokens = [segment.encode()]
    if len(session) >= 6:  # shorter ones occur in any process by chance
        tokens.append(session.encode())
    ours = {os.getpid(), *_descendants(os.getpid())}
    return any(
        _mentions(pid, tokens) and not _mentions(pid, [marker.encode()])
        for pid in psutil.pids()
        if pid not in ours
    )
