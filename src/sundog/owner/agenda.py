"""What an owner does later: attempts that wait their delay, deadlines of tasks.

Owns a heap of moments and one alarm among the owner's sockets, made on first use: a process without delays and
deadlines pays nothing. Runs under the owner's lock, in whichever thread reads. An entry belongs to a task and is
dropped unrung when the task is done; a program that gives a million short tasks an hour each does not keep a million
entries for an hour.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

from sundog.net.spare import spare
from sundog.owner.rows import DONE

if TYPE_CHECKING:
    from sundog.owner.pauses import KnownPauses
    from sundog.owner.reactor import Reactor
    from sundog.system.alarm import Alarm

_PRUNE_MIN = 256


def _make_alarm() -> Alarm:
    from sundog.system.alarm import Alarm

    return Alarm()


class Ends(Protocol):
    """What an entry belongs to: a task, or what a worker knows of one."""

    state: int


class Agenda:
    """The moments that one owner waits for."""

    def __init__(self, reactor: Reactor, pauses: KnownPauses) -> None:
        self._reactor = reactor
        self._pauses = pauses
        self._heap: list[tuple[float, int, Ends, Callable[..., None], tuple[object, ...]]] = []
        self._numbers = itertools.count()
        self._prune_at = _PRUNE_MIN
        self._alarm: Alarm | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def after(self, delay_s: float, task: Ends, call: Callable[..., None], *args: object) -> None:
        """Call `call(*args)` in `delay_s` seconds, under the lock, unless `task` is done by then (locked)."""
        heap = self._heap
        if len(heap) >= self._prune_at:
            heap[:] = [entry for entry in heap if entry[2].state != DONE]
            heapify(heap)
            self._prune_at = max(_PRUNE_MIN, 2 * len(heap))
        due_s = time.monotonic() + delay_s
        heappush(heap, (due_s, next(self._numbers), task, call, args))
        if heap[0][0] == due_s:
            self._set(due_s)

    def bound(self, delay_s: float, task: Ends, call: Callable[..., None], *args: object) -> None:
        """As `after`, for a time limit: while a task of this session is paused in a debugger, the limit does
        not run.
        """
        self.after(delay_s, task, self._over, task, self._pauses.total_s(), call, args)

    def _over(self, task: Ends, before_s: float, call: Callable[..., None], args: tuple[object, ...]) -> None:
        pauses = self._pauses
        owed_s = pauses.owed_s(before_s)
        if owed_s:
            self.after(owed_s, task, self._over, task, pauses.total_s(), call, args)
        else:
            call(*args)

    def _set(self, due_s: float | None) -> None:
        if self._alarm is None:
            # What waits for a descriptor waits here: the alarm must not need one that is free.
            self._alarm = spare.instead(_make_alarm)
            self._reactor.add(self._alarm.fd, self._rang)
        self._alarm.set(due_s)

    def _rang(self) -> None:
        assert self._alarm is not None
        self._alarm.hush()
        heap = self._heap
        now = time.monotonic()
        try:
            while heap and heap[0][0] <= now:
                _, _, task, call, args = heappop(heap)
                if task.state != DONE:
                    call(*args)
        finally:
            if heap:
                self._set(heap[0][0])

    def close(self) -> None:
        """Give the descriptor back; after the reactor has ended."""
        if self._alarm is not None:
            self._alarm.close()
