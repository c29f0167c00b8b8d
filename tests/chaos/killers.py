"""The killers: one thread of the driver that ends processes and removes files of its own session at random.

::

    dice ──► worker · actor · stop ──► the node's list of workers ──► pidfd ──► signal
        ├──► zygote · node ──────────► the process tree below this driver ──► pidfd ──► signal
        ├──► segment · free · spill ─► files in the session's folders ──► unlink
        ├──► storm ──────────────────► signals to the driver's own main thread (storms.py)
        ├──► disk · memory ──────────► a file that takes up the last byte (fullness.py)
        ├──► clock ──────────────────► the wall clock of the whole session jumps (clocks.py)
        └──► member ─────────────────► a node joins, or is lost with all that belongs to it (members.py)

A choice for which there is nothing at the moment (no spilled file, no actor) passes to another, so what can be done is.

Refuses to touch anything outside of the session: a process is signalled through a descriptor that was opened
while it stood below this driver's node, so that a pid in use again is never hit. What it does is in `Acts`
before it is done.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sundog
from sundog import engines
from sundog.owner import context
from sundog.wire.requests import ListRows
from tests.chaos import clocks, fullness
from tests.chaos.acts import Acts
from tests.chaos.members import MEMBER, SEGMENT, Members
from tests.chaos.processes import children, node_pid, stands_below, zygote_pid

# How often each is chosen among those that are on.
WEIGHTS = {
    "worker": 8,
    "actor": 3,
    "stop": 2,
    "zygote": 1,
    "node": 1,
    "segment": 4,
    "free": 2,
    "spill": 5,
    "storm": 3,
    fullness.DISK: 3,
    fullness.MEMORY: 3,
    clocks.CLOCK: 4,
    MEMBER: 4,
}
# The node is killed only in sessions that are given to it: nothing can go on after that.
EVERYDAY = ("worker", "actor", "stop", "zygote", "free", "storm")
_SIGNALS = [signal.SIGKILL] * 4 + [signal.SIGSEGV, signal.SIGABRT]
_ZYGOTES_MAX = 2  # of a session: nothing can begin until the next one has come up
# On a machine where starting a worker takes longer than the pause between two kills nothing would ever run: so many
# acts there may be at once, and so many more for each move that a program has made.
_ACTS_AT_ONCE, _ACTS_PER_MOVE = 6, 0.4


def has_lineage() -> bool:
    """Whether this sundog makes lost objects again."""
    return importlib.util.find_spec("sundog.owner.lineage") is not None


def has_spilling() -> bool:
    """Whether this sundog has a limit on shared memory, and spills beyond it."""
    return importlib.util.find_spec("sundog.store.spill") is not None


def by_default() -> list[str]:
    """The killers that this sundog promises to withstand."""
    found = [*EVERYDAY, "node", MEMBER]
    if has_lineage():
        found.append("segment")
        if has_spilling():
            found.append("spill")
    if not fullness.refusal():
        found.extend(fullness.KINDS)
    if not clocks.refusal():
        found.append(clocks.CLOCK)
    return found


class Killers(threading.Thread):
    """Does one thing after the other, with random pauses, until told to stop."""

    def __init__(
        self,
        dice: random.Random,
        acts: Acts,
        kinds: list[str],
        pause_s: tuple[float, float],
        moves_made: Callable[[], int],
        blow: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(name="chaos-killers", daemon=True)
        self.dice, self.acts, self.kinds, self.pause_s = dice, acts, kinds, pause_s
        self.moves_made, self.blow = moves_made, blow
        self.done = threading.Event()
        self.failure: BaseException | None = None
        engine = engines.current()
        assert engine is not None
        self.owner: Any = engine.owner
        self.spilled = Path(context.facts.session["path"]) / "spilled_objects"
        self._zygote_at = 0.0
        self._zygotes = 0
        self._deeds_done = 0
        self.members: Members | None = None
        if MEMBER in kinds:
            self.members = Members(str(context.facts.session["path"]), dice, acts, self._roles)
        self._deeds: dict[str, Callable[[], bool]] = {
            "worker": lambda: self._end_one("worker", ("idle", "leased")),
            "actor": lambda: self._end_one("actor", ("actor",)),
            "stop": self._stop_one,
            "zygote": self._end_zygote,
            "node": self._end_node,
            "segment": self._remove_segment,
            "free": self._remove_free,
            "spill": self._remove_spilled,
            "storm": self._storm,
            fullness.DISK: lambda: self._fill(fullness.DISK, str(self.spilled.parents[1])),
            fullness.MEMORY: lambda: self._fill(
                fullness.MEMORY, os.path.dirname(self.owner.segments.shm_root)
            ),
            clocks.CLOCK: self._turn_clock,
            MEMBER: lambda: self.members is not None and self.members.come_or_go(),
        }

    def run(self) -> None:
        try:
            while not self.done.wait(self.dice.uniform(*self.pause_s)):
                if self._deeds_done < _ACTS_AT_ONCE + _ACTS_PER_MOVE * self.moves_made():
                    self._act()
                    self._deeds_done += 1
        except sundog.exceptions.LocalRayletDiedError:
            if not self.acts.node_killed():
                raise
        except BaseException as error:
            self.failure = error

    def _act(self) -> None:
        """Do one thing: the first of a random order that can be done."""
        kinds = list(self.kinds)
        while kinds:
            kind = self.dice.choices(kinds, [WEIGHTS[each] for each in kinds])[0]
            if self._deeds[kind]():
                return
            kinds.remove(kind)

    def stop(self) -> None:
        """Let the session be in peace from now on."""
        self.done.set()
        self.join()

    # ------------------------------------------------------------------ processes
    def _workers(self, states: tuple[str, ...]) -> list[dict[str, Any]]:
        rows = sundog.api.control(ListRows("workers"))[0]
        return [
            row for row in rows if row["worker_type"] == "WORKER" and row["state"] in states and row["pid"]
        ]

    def _roles(self) -> dict[int, str]:
        return {row["pid"]: row["state"] for row in self._workers(("idle", "leased", "actor"))}

    def _end_one(self, kind: str, states: tuple[str, ...]) -> bool:
        rows = self._workers(states)
        if not rows:
            return False
        row = self.dice.choice(rows)
        return self._signal(kind, row["pid"], self.dice.choice(_SIGNALS), row["state"])

    def _stop_one(self) -> bool:
        rows = self._workers(("idle", "leased", "actor"))
        if not rows:
            return False
        pid = self.dice.choice(rows)["pid"]
        descriptor = self._open(pid)
        if descriptor < 0:
            return False
        self.acts.log("stop", pid=pid)
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
            self.done.wait(self.dice.uniform(0.05, 0.4))
        except ProcessLookupError:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            os.close(descriptor)
        return True

    def _end_zygote(self) -> bool:
        """Kill the first at any moment, later ones when they have children.

        Three that die before they ever served count as one that cannot start, and end the session: a feature.
        """
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        pid = zygote_pid(self._zygote_at)
        if not pid or self._zygotes >= _ZYGOTES_MAX or (not children(pid) and self._zygote_at):
            return False
        self._zygotes += 1
        self._zygote_at = now
        return self._signal("zygote", pid, signal.SIGKILL, "")

    def _end_node(self) -> bool:
        self._signal("node", node_pid(), signal.SIGKILL, "")
        self.done.set()
        return True

    def _storm(self) -> bool:
        """Signals to the driver while other things are done."""
        if self.blow is None:
            return False
        self.acts.log("storm")
        self.blow(self.dice.uniform(0.05, 0.5))
        return True

    def _turn_clock(self) -> bool:
        act = self.acts.log(clocks.CLOCK)
        if not clocks.turn(self.dice):
            self.acts.strike(act)
            return False
        return True

    def _fill(self, kind: str, folder: str) -> bool:
        """No room for a moment."""
        act = self.acts.log(kind)
        try:
            if not fullness.fill(folder):
                self.acts.strike(act)
                return False
            self.done.wait(self.dice.uniform(0.05, 0.5))
        finally:
            fullness.make_room(folder)
        return True

    def _open(self, pid: int) -> int:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return -1
        if not stands_below(pid, os.getpid()):
            os.close(descriptor)
            return -1
        return descriptor

    def _signal(self, kind: str, pid: int, number: int, role: str) -> bool:
        descriptor = self._open(pid)
        if descriptor < 0:
            return False
        act = self.acts.log(kind, pid=pid, signal=number, name=role)
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            self.acts.strike(act)
            return False
        finally:
            os.close(descriptor)
        return True

    # ------------------------------------------------------------------ files
    def _remove_segment(self) -> bool:
        """Remove the copy of an object: one of the driver's, or of some worker's."""
        return self._remove_one("segment", self.owner.segments.shm_root, SEGMENT.match)

    def _remove_free(self) -> bool:
        return self._remove_one("free", self.owner.segments.shm_root, lambda name: name.startswith("free-"))

    def _remove_spilled(self) -> bool:
        """Remove a file of spilled objects, or one that found no room in memory: it lies beside them."""
        folders = [folder for folder, _, files in os.walk(self.spilled, followlinks=True) if files]
        return bool(folders) and self._remove_one("spill", self.dice.choice(folders), bool)

    def _remove_one(self, kind: str, folder: str, fits: Callable[[str], object]) -> bool:
        names = sorted(name for name in os.listdir(folder) if fits(name))
        if not names:
            return False
        path = f"{folder}/{self.dice.choice(names)}"
        try:
            # For reading, so that what stands in it can be told; not inherited by anybody.
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        act = self.acts.log(kind, name=os.path.basename(path), file=file)
        try:
            os.unlink(path)
        except OSError:
            self.acts.strike(act)
            return False
        return True
