"""What the chaos did: the log that errors are held against, and the notes that bodies left.

Written by the killers' thread alone, read by the programs' threads. An act is logged *before* it is carried out, so an
error never arrives before its evidence; one that turns out to be impossible is struck out again.

Of a file that was removed the log keeps a descriptor: what stood in it, and what was still being written to it when it
lost its name, says exactly whose copy was lost, however many objects share it and whoever owns them.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.contents import mark_of, marks_in

FILES = ("segment", "free", "spill")


@dataclass(frozen=True)
class Act:
    """One thing that was done to the session."""

    number: int
    kind: str  # worker | actor | zygote | node | stop | segment | free | spill | storm | disk | memory | member …
    at: float
    pid: int = 0
    signal: int = 0
    name: str = ""
    file: int = -1  # a descriptor of the file that was removed


class Acts:
    """All acts of one session, and whatever else is evidence."""

    def __init__(self, folder: Path, lineage: bool) -> None:
        self.folder = folder
        self.lineage = lineage  # whether this sundog rebuilds lost objects
        self._acts: dict[int, Act] = {}
        self.next_number = 0
        self._lock = threading.Lock()
        self._lost: set[bytes] = set()  # marks of contents that stood in a file that was removed

    # ------------------------------------------------------------------ writing
    def log(self, kind: str, *, pid: int = 0, signal: int = 0, name: str = "", file: int = -1) -> Act:
        """Note what is about to be done."""
        act = Act(self.next_number, kind, time.monotonic(), pid, signal, name, file)
        self.next_number += 1
        self._acts[act.number] = act
        return act

    def strike(self, act: Act) -> None:
        """It could not be done after all."""
        with self._lock:
            self._acts.pop(act.number, None)
            if act.file >= 0:
                os.close(act.file)

    def close(self) -> None:
        """The session is judged: let go of the files."""
        for act in self.all():
            self.strike(act)

    # ------------------------------------------------------------------ reading
    def all(self) -> list[Act]:
        """Every act so far, in order."""
        return list(self._acts.values())

    def kills(self) -> list[Act]:
        """The processes that were ended."""
        return [act for act in self.all() if act.signal and act.kind in ("worker", "actor")]

    def kill_of(self, pid: int | None) -> Act | None:
        """The act that ended a process, if any did."""
        return next((act for act in self.kills() if act.pid == pid), None)

    def node_killed(self) -> bool:
        """Whether the session was ended from outside."""
        return any(act.kind == "node" for act in self.all())

    def member_killed(self) -> bool:
        """Whether the session lost a node that was not its head."""
        return any(act.kind == "member" for act in self.all())

    def zygote_killed(self) -> bool:
        """Whether the process that collects the workers' ends was killed."""
        return any(act.kind == "zygote" for act in self.all())

    def removed(self, value: Any) -> bool:
        """Whether a file was removed in which this content stood, or was being written."""
        mark = mark_of(value)
        if mark and mark not in self._lost:
            with self._lock:
                for act in self.all():
                    if act.kind in FILES:
                        self._lost |= marks_in(os.pread(act.file, os.fstat(act.file).st_size, 0))
        return mark in self._lost

    def any_removed(self) -> bool:
        """Whether any copy was removed at all."""
        return any(act.kind in ("segment", "spill") for act in self.all())

    def runs(self, mark: str) -> list[int]:
        """The pids that ran a body, in order."""
        return [int(line) for line in self.lines(mark)]

    def lines(self, name: str) -> list[str]:
        """What bodies noted under a name."""
        try:
            return (self.folder / name).read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return []

    def silent_kills(self) -> int:
        """Kills of processes that may have been an actor which had not noted its life yet."""
        return sum(act.name in ("actor", "idle") for act in self._unnoted_kills())

    def overtaken(self, number: int | None = None) -> bool:
        """Whether a signal may have hit an actor that had not noted its life, though it was meant for a task's worker.

        Between the choice of a worker and its end its lease may be over, and the next be an actor's.
        """
        return any(act.name == "leased" and number in (None, act.signal) for act in self._unnoted_kills())

    def _unnoted_kills(self) -> list[Act]:
        noted = {
            int(line)
            for path in self.folder.glob("*.lives")
            for line in path.read_text(encoding="ascii").splitlines()
        }
        return [act for act in self.kills() if act.pid not in noted]

    @staticmethod
    def gone(pid: int) -> bool:
        """Whether a process is dead: a fact of the kernel's, whoever caused it."""
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True
