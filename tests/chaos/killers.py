"""The killers: one thread of the driver that ends processes and removes files of its own session at random.

::

    dice ──► worker · actor · stop ──► the node's list of workers ──► pidfd ──► signal
        ├──► zygote · node ──────────► the process tree below this driver ──► pidfd ──► signal
        └──► segment · free · spill ─► files in the session's folders ──► unlink

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
from tests.chaos.acts import SEGMENT, Acts

# How often each is chosen among those that are on.
WEIGHTS = {
    "worker": 8,
    "actor": 3,
    "stop": 2,
    "zygote": 2,
    "node": 1,
    "segment": 4,
    "free": 1,
    "spill": 3,
}
# The node is killed only in sessions that are given to it: nothing can go on after that.
EVERYDAY = ("worker", "actor", "stop", "zygote", "free")
_SIGNALS = [signal.SIGKILL] * 4 + [signal.SIGSEGV, signal.SIGABRT]
# A zygote needs a second to import and serve on a loaded machine. One that is killed thrice before it ever
# served counts as one that cannot start, and ends the session: that is a feature.
_ZYGOTE_PAUSE_S = 4.0
# On a machine where starting a worker takes longer than the pause between two kills nothing would ever run: after so
# many the session is left alone.
_ACTS_MAX = 40


def has_lineage() -> bool:
    """Whether this sundog makes lost objects again."""
    return importlib.util.find_spec("sundog.owner.lineage") is not None


def has_spilling() -> bool:
    """Whether this sundog has a limit on shared memory, and spills beyond it."""
    return importlib.util.find_spec("sundog.store.spill") is not None


def by_default() -> list[str]:
    """The killers that this sundog promises to withstand."""
    found = [*EVERYDAY, "node"]
    if has_lineage():
        found.append("segment")
        if has_spilling():
            found.append("spill")
    return found


class Killers(threading.Thread):
    """Does one thing after the other, with random pauses, until told to stop."""

    def __init__(
        self, dice: random.Random, acts: Acts, kinds: list[str], pause_s: tuple[float, float]
    ) -> None:
        super().__init__(name="chaos-killers", daemon=True)
        self.dice, self.acts, self.kinds, self.pause_s = dice, acts, kinds, pause_s
        self.done = threading.Event()
        self.failure: BaseException | None = None
        engine = engines.current()
        assert engine is not None
        self.owner: Any = engine.owner
        self.spilled = Path(context.facts.session["path"]) / "spilled_objects"
        self._zygote_at = 0.0
        self._deeds: dict[str, Callable[[], None]] = {
            "worker": lambda: self._end_one("worker", ("idle", "leased")),
            "actor": lambda: self._end_one("actor", ("actor",)),
            "stop": self._stop_one,
            "zygote": self._end_zygote,
            "node": self._end_node,
            "segment": self._remove_segment,
            "free": self._remove_free,
            "spill": self._remove_spilled,
        }

    def run(self) -> None:
        weights = [WEIGHTS[kind] for kind in self.kinds]
        try:
            while self.acts.next_number < _ACTS_MAX and not self.done.wait(self.dice.uniform(*self.pause_s)):
                self._deeds[self.dice.choices(self.kinds, weights)[0]]()
        except sundog.exceptions.LocalRayletDiedError:
            if not self.acts.node_killed():
                raise
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        """Let the session be in peace from now on."""
        self.done.set()
        self.join()

    # ------------------------------------------------------------------ processes
    def _workers(self, states: tuple[str, ...]) -> list[dict[str, Any]]:
        rows = sundog.api.control("list", "workers", False)
        return [
            row for row in rows if row["worker_type"] == "WORKER" and row["state"] in states and row["pid"]
        ]

    def _end_one(self, kind: str, states: tuple[str, ...]) -> None:
        rows = self._workers(states)
        if rows:
            row = self.dice.choice(rows)
            self._signal(kind, row["pid"], self.dice.choice(_SIGNALS), row["state"])

    def _stop_one(self) -> None:
        rows = self._workers(("idle", "leased", "actor"))
        if not rows:
            return
        pid = self.dice.choice(rows)["pid"]
        descriptor = self._open(pid)
        if descriptor < 0:
            return
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

    def _end_zygote(self) -> None:
        now = time.monotonic()
        if now - self._zygote_at < _ZYGOTE_PAUSE_S:
            return
        for pid in children(node_pid()):
            if b"sundog.worker.zygote" in command(pid):
                self._zygote_at = now
                self._signal("zygote", pid, signal.SIGKILL, "")
                return

    def _end_node(self) -> None:
        self._signal("node", node_pid(), signal.SIGKILL, "")
        self.done.set()

    def _open(self, pid: int) -> int:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return -1
        if not stands_below(pid, os.getpid()):
            os.close(descriptor)
            return -1
        return descriptor

    def _signal(self, kind: str, pid: int, number: int, role: str) -> None:
        descriptor = self._open(pid)
        if descriptor < 0:
            return
        act = self.acts.log(kind, pid=pid, signal=number, name=role)
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            self.acts.strike(act)
        finally:
            os.close(descriptor)

    # ------------------------------------------------------------------ files
    def _remove_segment(self) -> None:
        """Remove the copy of an object: one of the driver's, or of some worker's."""
        root, me = self.owner.segments.shm_root, self.owner.me.hex()
        holders = {value[2][0]: oid for oid, value in list(self.owner.ready.items()) if value[2] is not None}
        names = [
            name
            for name in os.listdir(root)
            # Of the driver's, only what certainly holds an object: else nobody could tell whose loss is true.
            if (found := SEGMENT.match(name)) and (name in holders or found["owner"] != me)
        ]
        if names:
            name = self.dice.choice(names)
            self._unlink("segment", f"{root}/{name}", holders.get(name, b""))

    def _remove_free(self) -> None:
        root = self.owner.segments.shm_root
        names = [name for name in os.listdir(root) if name.startswith("free-")]
        if names:
            self._unlink("free", f"{root}/{self.dice.choice(names)}", b"")

    def _remove_spilled(self) -> None:
        files = sorted(str(path) for path in self.spilled.rglob("*") if path.is_file())
        if files:
            self._unlink("spill", self.dice.choice(files), b"")

    def _unlink(self, kind: str, path: str, object_id: bytes) -> None:
        act = self.acts.log(kind, name=os.path.basename(path), object_id=object_id)
        try:
            os.unlink(path)
        except OSError:
            self.acts.strike(act)


# ---------------------------------------------------------------------- the process tree
def parent(pid: int) -> int:
    """The parent of a process; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def stands_below(pid: int, root: int) -> bool:
    """Whether a process descends from another."""
    while pid > 1:
        pid = parent(pid)
        if pid == root:
            return True
    return False


def children(pid: int) -> list[int]:
    """The children of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found.extend(int(each) for each in file.read().split())
    return found


def command(pid: int) -> bytes:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def node_pid() -> int:
    """The node of this driver's session: its child of that kind."""
    return next((pid for pid in children(os.getpid()) if b"sundog.node" in command(pid)), 0)
