"""Hard caps: a task or actor with `memory=` and `enforce_memory=True` ends when it passes its own request.

::

    lease granted with a cap ──► every 100 ms: own memory of its process above the cap? ──► kill, with the arithmetic
                             └─► where a control group can be made: a fence that slows it down or tells us at once

Counted is the memory of the worker's own (and of processes its code started), not shared segments: a large result is
the object store's. What a reused worker still held from earlier tasks is added to its cap. So the judgement is always
made from the process' own figures; a control group, which counts otherwise, only makes it come sooner. Owns the capped
workers and their control groups. Runs on the node's only thread; costs nothing while nothing is capped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sundog import machine
from sundog.node.tripwire import Tripwire
from sundog.state.memory import NEVER

if TYPE_CHECKING:
    from sundog.node.interfaces import WithMemory, WithWorkers

    class CapsNode(WithMemory, WithWorkers, Protocol):
        """What the caps ask of the node."""


_WATCH_S = 0.1
_STEP_BYTES = 1 << 20
_PREFIX = "sundog-"
REASON = "its task used more memory than memory= allows"


class _Capped:
    """A worker with a cap."""

    def __init__(self, worker: bytes, pid: int, cap_bytes: int, held_before_bytes: int) -> None:
        self.worker = worker
        self.pid = pid
        self.cap_bytes = cap_bytes
        self.allowed_bytes = cap_bytes + held_before_bytes
        self.fence: Fence | None = None


class Caps:
    """All caps of one node."""

    def __init__(self, node: CapsNode, groups: list[machine.MemoryGroup]) -> None:
        self.node = node
        self._group = groups[0] if groups and node.config.enforce_memory_by_cgroup else None
        self._capped: dict[bytes, _Capped] = {}
        self._leases: dict[int, bytes] = {}
        self._watching = False

    def granted(self, lease: int, worker: bytes, cap_bytes: int) -> None:
        """A lease begins: with a cap, or (0) without."""
        process = self.node.processes.get(worker)
        if cap_bytes <= 0 or process is None:
            return
        self._leases[lease] = worker
        base = machine.own_bytes(self.node.workers.zygote_pid)
        held_before = max(0, machine.own_bytes(process.pid) - base)
        capped = _Capped(worker, process.pid, cap_bytes, held_before)
        self._capped[worker] = capped
        if self._group is not None:
            capped.fence = Fence.build(self.node, self._group, process.pid, lambda: self._check(capped))
            if capped.fence is None:
                # the cgroup is not writable: from now on the node watches the memory by itself
                self._group = None
            else:
                self.node.workers.causes.groups.look_at(process.pid)
                self._check(capped)
        if not self._watching:
            self._watching = True
            self.node.loop.after(_WATCH_S, self._watch)

    def released(self, lease: int) -> None:
        """A lease was given back: its worker may serve others."""
        worker = self._leases.pop(lease, None)
        if worker is not None:
            self.ended(worker)

    def ended(self, worker: bytes) -> None:
        """A capped worker serves its lease no longer, or is gone."""
        if worker not in self._capped:
            return
        self._leases = {lease: each for lease, each in self._leases.items() if each != worker}
        capped = self._capped.pop(worker)
        if capped.fence is not None:
            capped.fence.remove()

    def close(self) -> None:
        """The session ends; its processes are gone."""
        for worker in list(self._capped):
            self.ended(worker)

    def _watch(self) -> None:
        self._watching = bool(self._capped)
        for capped in list(self._capped.values()):
            self._check(capped)
        if self._watching:
            self.node.loop.after(_WATCH_S, self._watch)

    def _check(self, capped: _Capped) -> None:
        if self._capped.get(capped.worker) is not capped:
            return
        own = self.node.memory.own_bytes(capped.pid)
        if own <= capped.allowed_bytes:
            if capped.fence is not None:
                capped.fence.tighten(capped.allowed_bytes - own)
            return
        process = self.node.processes.get(capped.worker)
        if process is None or process.state == "stopping":
            return
        reading = self.node.memory.reading
        self.node.memory.kill(
            capped.worker,
            REASON,
            {
                "used_bytes": reading.used_bytes,
                "total_bytes": reading.total_bytes,
                "own_bytes": own,
                "cap_bytes": capped.cap_bytes,
                "reason": "it used more memory than its memory=, which enforce_memory=True makes a limit",
                "retry": NEVER,
            },
        )


class Fence:
    """A control group around one worker: v1 tells at once when a mark is passed, v2 slows the worker down there.

    Neither ends anything by itself, so the kernel's own killer never has a reason to act here.
    """

    def __init__(
        self, group: machine.MemoryGroup, outer: machine.MemoryGroup, pid: int, tripwire: Tripwire
    ) -> None:
        self._group = group
        self._outer = outer
        self._pid = pid
        self._tripwire = tripwire

    @classmethod
    def build(
        cls, node: CapsNode, outer: machine.MemoryGroup, pid: int, tripped: Callable[[], None]
    ) -> Fence | None:
        """A fence below `outer` with one process in it; None where that is not possible."""
        path = f"{outer.path}/{_PREFIX}{os.path.basename(node.session['shm_root'])[len(_PREFIX) :]}-{pid}"
        _sweep(outer.path)
        try:
            os.mkdir(path)
        except OSError:
            return None
        group = machine.MemoryGroup(path, outer.version)
        needed = "memory.high" if group.version == 2 else "memory.usage_in_bytes"
        try:
            if not os.path.exists(f"{path}/{needed}"):
                raise OSError("the memory controller is not enabled below this group")
            _write(f"{path}/cgroup.procs", str(pid))
        except OSError:
            with contextlib.suppress(OSError):
                os.rmdir(path)
            return None
        return cls(group, outer, pid, Tripwire(node.loop, tripped))

    def tighten(self, left_bytes: int) -> None:
        """Set how many more bytes of its own a worker may take before the node hears of it. What is charged here may be
        shared memory."""
        charged = self._group.used_bytes() or 0
        mark = charged + max(left_bytes, _STEP_BYTES)
        mark -= (
            mark % _STEP_BYTES
        )  # the kernel counts in pages, so a limit that differs by less than a page is the same limit
        if self._group.version == 2:
            with contextlib.suppress(OSError):
                _write(f"{self._group.path}/memory.high", str(mark))
        else:
            self._tripwire.set(self._group, mark)

    def remove(self) -> None:
        """Let the worker out, if it lives, and remove the group."""
        self._tripwire.close()
        with contextlib.suppress(OSError):
            _write(f"{self._outer.path}/cgroup.procs", str(self._pid))
        with contextlib.suppress(OSError):
            os.rmdir(self._group.path)


def _sweep(outer: str) -> None:
    """Remove groups that a killed node left: one with a process in it, which is in use, cannot be removed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(outer):
            if name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    os.rmdir(f"{outer}/{name}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
