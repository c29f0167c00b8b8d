"""What the chaos did: the log that errors are held against, and the notes that bodies left.

Written by the killers' thread alone, read by the programs' threads. An act is logged *before* it is carried out, so an
error never arrives before its evidence; one that turns out to be impossible is struck out again.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

# <owner>-<maker>-<number>: a segment in which an object lives.
SEGMENT = re.compile(r"^(disk-)?(?P<owner>[0-9a-f]{16})-[0-9a-f]{16}-\d+$")

_ANY = "any"


@dataclass(frozen=True)
class Act:
    """One thing that was done to the session."""

    number: int
    kind: str  # worker | actor | zygote | node | stop | segment | free | spill
    at: float
    pid: int = 0
    signal: int = 0
    name: str = ""
    object_id: bytes = b""


class Acts:
    """All acts of one session, and whatever else is evidence."""

    def __init__(self, folder: Path, lineage: bool) -> None:
        self.folder = folder
        self.lineage = lineage  # whether this sundog rebuilds lost objects
        self._acts: dict[int, Act] = {}
        self.next_number = 0
        self._lost: set[bytes] = set()
        self._lost_owners: set[str] = set()

    # ------------------------------------------------------------------ writing
    def log(self, kind: str, *, pid: int = 0, signal: int = 0, name: str = "", object_id: bytes = b"") -> Act:
        """Note what is about to be done."""
        act = Act(self.next_number, kind, time.monotonic(), pid, signal, name, object_id)
        self.next_number += 1
        self._acts[act.number] = act
        if object_id:
            self._lost.add(object_id)
        elif kind in ("segment", "spill"):
            # A file of several spilled objects names none of them: then any may be lost.
            found = SEGMENT.match(name)
            self._lost_owners.add(found["owner"] if found else _ANY)
        return act

    def strike(self, act: Act) -> None:
        """It could not be done after all."""
        self._acts.pop(act.number, None)

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

    def removed(self, object_id: bytes) -> bool:
        """Whether the copy of an object was removed.

        Of what workers own only the segments' names are known here, and they name the owner alone.
        """
        owners = self._lost_owners
        return object_id in self._lost or object_id[:8].hex() in owners or _ANY in owners

    def any_removed(self) -> bool:
        """Whether any copy was removed at all."""
        return bool(self._lost or self._lost_owners)

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
        noted = {
            int(line)
            for path in self.folder.glob("*.lives")
            for line in path.read_text(encoding="ascii").splitlines()
        }
        return sum(act.pid not in noted for act in self.kills() if act.name in ("actor", "idle"))

    @staticmethod
    def gone(pid: int) -> bool:
        """Whether a process is dead: a fact of the kernel's, whoever caused it."""
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True
