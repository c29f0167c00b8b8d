"""A memory control group around one job: its command, all that this starts, and its workers.

::

    <group of this session's node>/sundogjob-<session>-<job>      v1: memory.limit_in_bytes    v2: memory.max
        ◄── supervisor: the command, before its first instruction
        ◄── node: each worker of the job

Owns the name and the limit of the group. The kernel's count has the pages of shared memory in it that the job's
processes wrote, so the limit is the job's memory, its part of the object store, and some room; it stops a job that
outruns the monitor (`node/job_memory.py`), which judges by the processes' own memory and always comes first otherwise.
Where no group can be made, ``build`` says why in one sentence. Used by the node and by a job's supervisor; whichever of
them is last removes the group.
"""

from __future__ import annotations

import contextlib
import os
import time

from sundog import machine

_PREFIX = "sundogjob-"
_SLACK_BYTES = 64 << 20
_STALE_S = 60.0


class JobGroup:
    """The control group of one job."""

    def __init__(self, group: machine.MemoryGroup) -> None:
        self.group = group
        self.path = group.path

    @property
    def counter(self) -> str:
        """The file in which the kernel counts its kills for memory here."""
        return f"{self.path}/{'memory.events' if self.group.version == 2 else 'memory.oom_control'}"

    def limit(self, memory_bytes: int, store_bytes: int) -> None:
        """Set the most that the kernel lets the job have.

        Raises:
            OSError: the kernel refuses.
        """
        name = "memory.max" if self.group.version == 2 else "memory.limit_in_bytes"
        _write(f"{self.path}/{name}", memory_bytes + store_bytes + max(_SLACK_BYTES, memory_bytes // 8))

    def add(self, pid: int) -> bool:
        """Put a process into the group; 0 is the caller. Whether that was possible."""
        try:
            _write(f"{self.path}/cgroup.procs", pid)
        except OSError:
            return False
        return True

    def remove(self) -> bool:
        """Remove the group; False while there is a process in it."""
        try:
            os.rmdir(self.path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def build(
    session: str,
    job: str,
    memory_bytes: int,
    store_bytes: int,
    around: list[machine.MemoryGroup] | None = None,
) -> tuple[JobGroup | None, str]:
    """The group of a job, made if it is not there; or None, and why there can be none.

    Args:
        session: the session's folder.
        memory_bytes, store_bytes: what the job may have for itself, and of the object store.
        around: groups to make it in, by default those of this process.
    """
    why = "this process is in no memory control group"
    for outer in _places(machine.groups() if around is None else around):
        _sweep(outer.path)
        _let_be_limited(outer)
        made = JobGroup(machine.MemoryGroup(f"{outer.path}/{name_of(session, job)}", outer.version))
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(made.path)
            made.limit(memory_bytes, store_bytes)
        except OSError as error:
            why = f"{outer.path}: {error.strerror}"
            if isinstance(error, FileNotFoundError) and os.path.isdir(made.path) and outer.version == 2:
                why = f"{outer.path}: cgroup.subtree_control has no memory, so groups in it can have no limit"
            made.remove()
            continue
        return made, ""
    return None, f"no control group can be made ({why}), so the memory monitor alone watches its processes"


def name_of(session: str, job: str) -> str:
    """The name of a job's group."""
    return f"{_PREFIX}{os.path.basename(session)}-{job}"


def _places(groups: list[machine.MemoryGroup]) -> list[machine.MemoryGroup]:
    """Where a group may be made: in our own group, and in one around it as long as no limit is left that way."""
    found: list[machine.MemoryGroup] = []
    for group in groups:
        found.append(group)
        if group.limit_bytes() is not None:
            break
    return found


def _let_be_limited(outer: machine.MemoryGroup) -> None:
    """With version 2, groups in a group have a limit only if it says so. One with processes cannot."""
    path = f"{outer.path}/cgroup.subtree_control"
    with contextlib.suppress(OSError):
        if outer.version == 2:
            with open(path, encoding="ascii") as file:
                controllers = file.read().split()
            if "memory" not in controllers:
                _write(path, "+memory")


def _sweep(outer: str) -> None:
    """Remove groups of killed sessions: empty, and not made a moment ago."""
    with contextlib.suppress(OSError):
        for name in os.listdir(outer):
            path = f"{outer}/{name}"
            if name.startswith(_PREFIX) and time.time() - os.stat(path).st_mtime > _STALE_S:
                with contextlib.suppress(OSError):
                    os.rmdir(path)


def _write(path: str, what: int | str) -> None:
    # Without O_CREAT: a file that the kernel does not offer must not be created.
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, str(what).encode())
    finally:
        os.close(file)
