"""Stalls: programs that make no step for long, and whether they were starved of processors, busy, or stuck.

::

    watch (a thread of the driver) ── each second ──► /proc/…/schedstat of the driver and all below it
       └─ a program without a step for STALL_S ─────► what these processes did meanwhile, and where each of them is

A process that is ready to run and gets no processor is no fault of ours, however long it takes; one of a session in
which nobody is ready to run, while somebody waits for an answer, will wait for ever. The kernel counts both. Stacks
are py-spy's, where it is installed; without it those of the driver alone, and of the others what the kernel says.

Owns the samples. Refuses to judge: whoever gave up waiting asks (`starved`, `explain`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sundog.system.orphans import descendants

STALL_S = 40.0
_TICK_S = 1.0
_LITTLE = 0.2  # of a tick: polling, and the programs' own threads, take less than this
_DUMP_S = 60.0


class Tick(NamedTuple):
    """What the processes of a session did in about a second."""

    at: float  # its end
    length_s: float
    ran_s: float  # of all threads together
    waited_s: float  # ready to run, while others had the processors


class Span(NamedTuple):
    """What they did for longer: seconds by what most of each was."""

    quiet_s: float  # nobody wanted a processor
    busy_s: float  # some ran, and nobody waited
    hungry_s: float  # some waited for a processor

    @classmethod
    def of(cls, ticks: list[Tick]) -> Span:
        """Add up."""
        sums = [0.0, 0.0, 0.0]
        for tick in ticks:
            little = _LITTLE * tick.length_s
            kind = 2 if tick.waited_s > little else 1 if tick.ran_s > little else 0
            sums[kind] += tick.length_s
        return cls(*sums)

    def starved(self) -> bool:
        """Whether want of processors is most of the story."""
        return self.hungry_s > self.quiet_s + self.busy_s

    def text(self) -> str:
        """The verdict in words, with its evidence."""
        if self.starved():
            verdict = "starved of processors"
        else:
            verdict = "stuck" if self.quiet_s >= self.busy_s else "busy without an end"
        return (
            f"{verdict}: for {self.hungry_s:.0f} s its processes waited for a processor, for {self.busy_s:.0f} s they "
            f"had what they wanted, for {self.quiet_s:.0f} s none wanted any"
        )


class Clock:
    """Ticks from one look to the next at this process and all below it."""

    def __init__(self) -> None:
        self._at, self._seen = time.monotonic(), dict(_schedstats())

    def tick(self) -> Tick:
        """What was done since the last look."""
        now, current = time.monotonic(), dict(_schedstats())
        # A thread that is new counts from its beginning, which was after the last look.
        ran, waited = (
            sum(each[part] - self._seen.get(thread, (0, 0))[part] for thread, each in current.items()) / 1e9
            for part in (0, 1)
        )
        length_s = now - self._at
        self._at, self._seen = now, current
        return Tick(now, length_s, ran, waited)


class Watch(threading.Thread):
    """Looks at the driver and all below it, until told to stop."""

    def __init__(self, steps: dict[str, Callable[[], int]]) -> None:
        super().__init__(name="chaos-watch", daemon=True)
        self.steps = steps  # by program: how many it has made
        self.found: list[str] = []  # stalls, explained
        self.done = threading.Event()
        self._ticks: list[Tick] = []
        self._since = dict.fromkeys(steps, time.monotonic())
        self._made = dict.fromkeys(steps, 0)
        self._told: set[str] = set()

    def run(self) -> None:
        clock = Clock()
        while not self.done.wait(_TICK_S):
            self._ticks.append(clock.tick())
            for name in self.steps:
                self._look(name, self._ticks[-1].at)

    def stop(self) -> None:
        """The programs have ended."""
        self.done.set()
        self.join()

    def _look(self, name: str, now: float) -> None:
        made = self.steps[name]()
        if made != self._made[name]:
            self._made[name], self._since[name] = made, now
            self._told.discard(name)
        elif now - self._since[name] > STALL_S and name not in self._told:
            self._told.add(name)
            self.found.append(
                f"program {name} made no step for {STALL_S:.0f} s: {self.explain(name)}\n{stacks(os.getpid())}"
            )

    # ------------------------------------------------------------------ for those who wait
    def starved(self, name: str) -> bool:
        """Whether a program that made no step lacked processors, more than anything else."""
        return self._span(name).starved()

    def explain(self, name: str) -> str:
        """What the session did since a program's last step, in words."""
        return self._span(name).text()

    def _span(self, name: str) -> Span:
        return Span.of([tick for tick in self._ticks if tick.at > self._since[name]])


def _schedstats() -> Iterator[tuple[int, tuple[int, int]]]:
    """By thread of this process (but the one that looks) and of all below: nanoseconds that it ran, and waited."""
    me = os.getpid()
    for pid in (me, *descendants(me)):
        with contextlib.suppress(OSError):
            for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                if thread != threading.get_native_id():
                    with contextlib.suppress(OSError, ValueError):
                        ran, waited, _ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
                        yield thread, (int(ran), int(waited))


# ---------------------------------------------------------------------- stacks
def stacks(root: int) -> str:
    """Where a process and all below it are."""
    return "\n".join(f"-- {_title(pid)}\n{_stack(pid)}" for pid in (root, *descendants(root)))


def _title(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{pid}: {words[-100:].strip()}"
    return f"{pid}: ended"


def _tool() -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.path.exists(beside) else shutil.which("py-spy")


def _stack(pid: int) -> str:
    tool = _tool()
    if tool is not None:
        try:
            dump = subprocess.run(
                [tool, "dump", "--pid", str(pid)],
                capture_output=True,
                text=True,
                timeout=_DUMP_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pass
        else:
            if dump.returncode == 0:
                return "\n".join(dump.stdout.splitlines()[3:])
    return _own_stack() if pid == os.getpid() else _kernel_view(pid)


def _own_stack() -> str:
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")


def _kernel_view(pid: int) -> str:
    lines = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            folder = Path(f"/proc/{pid}/task/{thread}")
            with contextlib.suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                name, where = (folder / "comm").read_text().strip(), (folder / "wchan").read_text().strip()
                lines.append(f"  thread {thread} {name}: state {state}, in the kernel at {where}")
    return "\n".join(lines) or "  ended"
