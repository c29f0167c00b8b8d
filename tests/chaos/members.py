"""Sessions of several nodes: members join, and are killed with all that belongs to them.

::

    killers ──start──► member ──► its zygote, its workers; its folder in shared memory
       └── SIGSTOP to each of these · evidence to the log · SIGKILL to the member ──► all of it is lost at once

Owns the members of one session. While its processes are stopped a node makes no worker and no object, so the log names
exactly what was lost with it: each process, and each object of which the head has no copy. Some are drained first.
Runs on the killers' thread; `end` on the driver's main thread, when the session is over.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator

from sundog import config
from sundog.engines import capacity, members, sessions
from sundog.store import places
from sundog.wire.requests import DrainNode
from tests.chaos.acts import Acts
from tests.chaos.processes import below, state

MEMBER = "member"
MOST = 3
_CPUS = 2
_STORE_BYTES = 256 << 20  # more than the programs ever hold: nothing is spilled
_END_S = 30.0
# <owner>-<maker>-<number>, and of a member its tag: a segment in which an object lives.
SEGMENT = re.compile(r"^[0-9a-f]{16}-[0-9a-f]{16}-\d+(@[0-9a-f]{8})?$")

Roles = Callable[[], dict[int, str]]


class Members:
    """The nodes of a session beside its head.

    Args:
        roles: tells the state of each worker of the session, by pid.
    """

    def __init__(self, path: str, dice: random.Random, acts: Acts, roles: Roles) -> None:
        self._info = sessions.resolve(path)  # `init` does not wait for the node, this does
        self._dice, self._acts, self._roles = dice, acts, roles
        self._alive: list[members.MemberInfo] = []
        self._lost: list[members.MemberInfo] = []

    def come_or_go(self) -> bool:
        """One more node, or one less."""
        if self._alive and self._dice.random() < len(self._alive) / (MOST + 1):
            return self._lose(self._dice.choice(self._alive))
        return self.join()

    def join(self) -> bool:
        """One more node."""
        self._acts.log(f"{MEMBER} joins")
        settings = config.load({})
        totals = capacity.node_resources(_CPUS, 0, {}, _STORE_BYTES, settings)
        totals.pop("node:__internal_head__", None)
        self._alive.append(members.start_member(self._info, totals, {}, settings))
        return True

    def _lose(self, member: members.MemberInfo) -> bool:
        """SIGKILL to a member, after all that it takes along is in the log."""
        if self._dice.random() < 0.3:
            sessions.request(self._info, DrainNode(bytes.fromhex(member.node_id), False))
        roles = self._roles()
        with _frozen(member.pid) as pids:
            for pid in pids:
                self._acts.log("worker", pid=pid, signal=signal.SIGKILL, name=roles.get(pid, "idle"))
            for name, file in self._only_there(member):
                self._acts.log("segment", name=name, file=file)
            self._acts.log(MEMBER, pid=member.pid, signal=signal.SIGKILL, name=member.node_id)
            os.kill(member.pid, signal.SIGKILL)
        self._alive.remove(member)
        self._lost.append(member)
        return True

    def _only_there(self, member: members.MemberInfo) -> list[tuple[str, int]]:
        """The objects of a node, as open files; without those that the head has too (a copy is a hard link)."""
        kept = {entry.inode() for entry in _segments(self._info.shm_root)}
        found: list[tuple[str, int]] = []
        for entry in _segments(self.root_of(member)):
            if entry.inode() not in kept:
                with contextlib.suppress(FileNotFoundError):
                    found.append((entry.name, os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)))
        return found

    def root_of(self, member: members.MemberInfo) -> str:
        """The folder of a node in shared memory."""
        return places.shared_root(self._info.shm_root, places.tag_of_node(bytes.fromhex(member.node_id)))

    def roots(self) -> list[str]:
        """Those of all nodes that live."""
        return [self.root_of(member) for member in self._alive]

    def end(self) -> list[str]:
        """The session is over: every member ends with it. Returns what is wrong."""
        deadline = time.monotonic() + _END_S
        waiting = [*self._alive, *self._lost]
        while waiting := [each for each in waiting if not members.has_ended(each.pid)]:
            if time.monotonic() > deadline:
                for each in waiting:
                    members.kill(each)
                return [f"members outlived their session: {[each.pid for each in waiting]}"]
            time.sleep(0.01)
        roots = [self.root_of(each) for each in (*self._alive, *self._lost)]
        return [f"shared memory left of a node: {root}" for root in roots if os.path.exists(root)]


def _segments(root: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(root) as entries:
            return [entry for entry in entries if SEGMENT.match(entry.name)]
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def _frozen(pid: int) -> Iterator[list[int]]:
    """A process and all below it stand still; gives those below.

    All go on in the end, whatever happened: the kernel ends the workers of a node that was killed, but a zygote has
    to see for itself that its node is gone. If this driver is killed meanwhile, the harness lets them go on.
    """
    stopped: set[int] = set()
    try:
        while running := {pid, *below(pid)} - stopped:
            stopped |= running
            for each in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGSTOP)
            for each in running:
                _await_stop(each)
        yield sorted(stopped - {pid})
    finally:
        for each in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def _await_stop(pid: int) -> None:
    """Wait until a signal to stop has reached every thread of a process, or the process is gone."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            while state(f"/proc/{pid}/task/{thread}/stat") not in "TtZX":  # "" when it is gone
                time.sleep(0.001)
