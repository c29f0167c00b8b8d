"""The one cause of a worker's death, out of what the kernel, the node and the dead process' own files say.

::

    wait status ──────────────┐
    our own kill, its reason ─┤
    oom_kill counters ────────┼──► Cause ──► the node's log, leases, actors, every process that dealt with it
    fault handler's dump ─────┤
    flight recorder ──────────┘

Owns the counters of the kernel's out-of-memory kills and the reading of a dead worker's last words. Refuses to
guess: a counter that did not move is no evidence, and one movement explains one death. Runs on the node's only
thread, once per death that was not asked for; besides, some small files are read each second: the counters, and for
each worker the one that names its control group (`worker_groups.py`).
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from sundog import events
from sundog.node.rows import Process
from sundog.node.worker_groups import WorkerGroups
from sundog.system.oom_kills import VMSTAT as _VMSTAT
from sundog.system.oom_kills import own_counters, read_count, read_limit
from sundog.wire.cause import ENDED, EXIT, FAULTS, KERNEL_OOM, SIGNAL, Cause

if TYPE_CHECKING:
    from collections.abc import Container

    from sundog.plain import JsonObject

# A kill by the kernel and the report of the death are milliseconds apart; this allows for a loaded machine.
# An older change of the counter belongs to another process: one that user code started, or another container.
_CLAIM_S = 5.0
_DETAIL_BYTES = 16384
_FAULT = "Fatal Python error"
_DETAIL_LINES = 12
_OURS = os.path.dirname(os.path.abspath(events.__file__)) + os.sep
_MARK = "\x1e"  # begins a line in a worker's log that says whose output follows


class OomCounters:
    """The kernel's counts of out-of-memory kills: of this node's cgroup, of others it was told of, of the machine.

    A cgroup's own count is of its members, whatever memory ran out, and names the culprit: its limit. The machine's,
    in /proc/vmstat, counts the kills of strangers too, and is evidence only where this node's cgroup has no count.
    """

    def __init__(self, paths: list[str] | None = None, machine: str = _VMSTAT) -> None:
        self._seen: dict[str, int] = {}
        self._machine = machine
        self._machine_count = read_count(machine)
        self._machine_moves: list[tuple[float, int]] = []
        self._moves: list[tuple[float, str, int]] = []  # (when noticed, counter, count before)
        for path in own_counters() if paths is None else paths:
            self.watch(path)

    def watch(self, path: str) -> None:
        """Watch one more counter: the cgroup of a worker that got one of its own."""
        count = read_count(path)
        if count is not None:
            self._seen[path] = count

    def is_watched(self, path: str) -> bool:
        """Whether a counter is watched already."""
        return path in self._seen

    def unwatch(self, path: str) -> None:
        """A cgroup is gone."""
        self._seen.pop(path, None)
        self._moves = [move for move in self._moves if move[1] != path]

    def look(self, now: float) -> None:
        """Notice what moved; forget movements that are too old to explain a death of now."""
        for path, before in self._seen.items():
            count = read_count(path)
            if count is not None and count > before:
                self._moves += [(now, path, each) for each in range(before, count)]
                self._seen[path] = count
        self._moves = [move for move in self._moves if now - move[0] <= _CLAIM_S]
        count, before_count = read_count(self._machine), self._machine_count
        if count is not None and before_count is not None and count > before_count:
            self._machine_moves += [(now, each) for each in range(before_count, count)]
            self._machine_count = count
        self._machine_moves = [move for move in self._machine_moves if now - move[0] <= _CLAIM_S]

    def claim(self, now: float, own: str = "", others: Container[str] = ()) -> JsonObject | None:
        """Evidence that the kernel killed a process just now, used up by this; None if there is none.

        Args:
            now: on the monotonic clock.
            own: the counter of a control group that the process is in, if that is not the node's.
            others: counters of such groups of other processes: what moves there is not about this one.
        """
        self.look(now)
        moves = [move for move in self._moves if (move[1] == own if own else move[1] not in others)]
        if not moves:
            return None
        # One kill changes the machine's counter and the cgroup's: use up one of each, and name the cgroup's.
        move = next((move for move in moves if move[1] != _VMSTAT), moves[0])
        self._moves.remove(move)
        self.hint(now)
        if own:
            self._use_up_around(own)
        if move[1] != _VMSTAT:
            machine = next((each for each in self._moves if each[1] == _VMSTAT), None)
            if machine is not None:
                self._moves.remove(machine)
        facts = {"counter": move[1], "before": move[2], "after": move[2] + 1}
        limit = read_limit(move[1])
        return facts | ({"limit_bytes": limit} if limit else {})

    def _use_up_around(self, own: str) -> None:
        """In version 2 the same kill is counted in the groups around it, too."""
        folder = os.path.dirname(own)
        around = {move[1] for move in self._moves if folder.startswith(f"{os.path.dirname(move[1])}/")}
        for path in around:
            self._moves.remove(next(move for move in self._moves if move[1] == path))

    def hint(self, now: float) -> JsonObject:
        """What the machine's counter says of a kill just now, used up by this; empty if it did not move.

        It counts the kills of strangers too, so it is a hint, and no evidence.
        """
        self.look(now)
        if not self._machine_moves:
            return {}
        _, before = self._machine_moves.pop(0)
        return {"machine_counter": self._machine, "machine_before": before, "machine_after": before + 1}


class Causes:
    """Makes the cause of each death on this node."""

    def __init__(self, rings: str) -> None:
        self.rings = rings
        self.oom = OomCounters()
        self.groups = WorkerGroups(self.oom)

    def of(self, process: Process, status: int | None, peak_bytes: int = 0) -> Cause:
        """The cause of a worker's end.

        Args:
            status: the wait status; None if no process lived to tell it.
            peak_bytes: the most memory it had, as the kernel counted; 0 if not known.
        """
        if status is None:
            return Cause(reason=process.kill_reason, intended=process.intended)
        code = os.waitstatus_to_exitcode(status)
        exit_code, number = (code, None) if code >= 0 else (None, -code)
        if process.kill_reason and not (process.killed and number in FAULTS):
            return Cause(
                reason=process.kill_reason,
                exit_code=exit_code,
                signal=number,
                intended=process.intended,
                kind=process.kill_kind or ENDED,
                facts=process.kill_facts,
            )
        kind = EXIT if number is None else SIGNAL
        facts: JsonObject = {}
        if number == signal.SIGKILL:
            now, own = time.monotonic(), self.groups.counter_of(process.pid)
            found = self.oom.claim(now, own, self.groups.counters())
            kind, facts = (SIGNAL, self.oom.hint(now)) if found is None else (KERNEL_OOM, found)
        if peak_bytes:
            facts = {**facts, "peak_bytes": peak_bytes}
        task, line = self.last_seen(process.process_id)
        detail = "" if code == 0 or kind == KERNEL_OOM else last_words(process.err_path, number)
        if detail.startswith(_FAULT):
            # the stack of the fault says where it happened; an earlier sample would name another place
            line = ""
        return Cause(
            exit_code=exit_code,
            signal=number,
            detail=detail,
            kind=kind,
            last_line=line,
            last_task=task,
            facts=facts,
        )

    def last_seen(self, process_id: bytes) -> tuple[str, str]:
        """The task (hex) that a process had begun last, and the line of it that was sampled last."""
        path = f"{self.rings}/{process_id.hex()}.ring"
        task = events.started_last(path)
        if task is None:
            return "", ""
        sample = events.last_sample(path)
        if sample is None or sample.task_id != task or not sample.line:
            # the task was too short for a sample; the line of an earlier task would mislead
            return task.hex(), ""
        return task.hex(), f"{sample.line}, {max(0.0, time.time() - sample.at):.1f} s before"


# ---------------------------------------------------------------------- last words
def last_words(path: str, number: int | None) -> str:
    """What a dead worker's error output tells: the stack of a fault, else the lines it wrote last."""
    lines = tail(path)
    if number in FAULTS:
        fault = fault_lines([line for line in lines if not line.startswith(_MARK)])
        if fault:
            return "\n".join(fault)
    # Output of an earlier task of the same worker says nothing about this death.
    last_mark = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].startswith(_MARK)), -1)
    words = [line for line in lines[last_mark + 1 :] if line.strip()][-_DETAIL_LINES:]
    return "The end of its error output:\n" + "\n".join(f"  {line}" for line in words) if words else ""


def tail(path: str) -> list[str]:
    """The last lines of a file, marker lines included; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _DETAIL_BYTES))
            # Not splitlines(), which treats the mark itself as the end of a line.
            return file.read().decode(errors="replace").split("\n")
    except OSError:
        return []


def fault_lines(lines: list[str]) -> list[str]:
    """Of a fault handler's dump: what happened, and the stack of the thread it happened in; empty if none."""
    starts = [number for number, line in enumerate(lines) if line.startswith(_FAULT)]
    if not starts:
        return []
    dump = lines[starts[-1] :]
    current = next((n for n, line in enumerate(dump) if line.startswith("Current thread")), 0)
    stack = []
    for line in dump[current + 1 :]:
        if not line.startswith("  File"):
            break
        stack.append(line)
    if stack and stack[-1].endswith('File "<string>", line 1 in <module>'):
        del stack[-1]  # the command that started the zygote
    users = [line for line in stack if _OURS not in line]
    return [dump[0], dump[current], *(users or stack)[:_DETAIL_LINES]]
