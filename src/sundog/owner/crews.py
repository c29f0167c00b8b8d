"""Crews: so many workers, held by one part of a program until it lets go of them.

::

    Crew(size) ── want ──► node ── grant × size ──► each worker gets one task first (muster)
    tasks of the crew ──► its own queue ──► these workers and no others
    close(): idle workers go back · end(): all of them do · abort(): what runs is killed

Owns nothing but the order of these steps: queue, lanes and leases are those of every shape (`dispatch.py`). A worker
that goes back serves the next task of the session, with all that it has imported, unless the crew has spoiled it.
Any thread; each step takes the owner's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import takewhile
from pickle import dumps
from sys import _getframe
from typing import TYPE_CHECKING, TypeVar

from sundog.ids import RESULT_SUFFIX
from sundog.owner import context, rows
from sundog.owner.rows import Fn, Task
from sundog.refs import ObjectRef
from sundog.serialize.pack import SIMPLE
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.control import KillWorker

if TYPE_CHECKING:
    from sundog.owner.core import Owner
    from sundog.wire.dicts import LeaseSetup

_LOOK_S = 0.05  # check again after this time: another thread may have read the reply
_KEY = b"crew"

T = TypeVar("T")


class Crew:
    """The workers of one pool. `spoiled`: the workers were prepared for this pool, and serve no other shape
    afterwards.
    """

    def __init__(self, owner: Owner, size: int, spec: LeaseSpec, setup: LeaseSetup, spoiled: bool) -> None:
        self._owner = owner
        self._row = rows.CrewTerms(size, spoiled)
        self._shape = owner.dispatch.private_shape(spec, setup)
        self._shape.crew = self._row

    @property
    def size(self) -> int:
        """How many workers there are at most."""
        return self._row.size

    def employ(self, fn: Fn) -> None:
        """Have the tasks of a function run by this crew. The tasks may share a packet: a crash can lose the
        results of tasks that ended just before it.
        """
        fn.shape = self._shape
        fn.together = True

    def muster(self, submit: Callable[[], T]) -> list[T]:
        """Submit one task for each worker, which is its first; what `submit` returned."""
        with self._owner.lock:
            return [submit() for _ in range(self._row.size)]

    def mustered(self) -> None:
        """All of these have ended: from now on a task goes to whichever worker is free."""
        with self._owner.lock:
            self._row.mustering = False
            self._owner.dispatch.dispatch_all()

    # ------------------------------------------------------------------ many at a time
    def submit(self, fn: Fn, items: list[object]) -> list[ObjectRef[object]]:
        """One task for each item, which is its argument; sent together."""
        owner, tasks = self._owner, self._owner.tasks
        code, at = _getframe(1).f_code, _getframe(1).f_lasti
        parent = context.current_id() if owner.notes_parents else None
        queue, now = self._shape.queue, time.time()
        refs: list[ObjectRef[object]] = []
        for item in items:
            blob = dumps((item,), 5) if type(item) in SIMPLE else b""
            if not blob or len(blob) > owner.inline_max:
                task = tasks.submit(fn, (item,), {})
            else:
                task = Task(owner.ids.task(), fn, blob, now)
                task.parent = parent
                owner.table[task.id] = task
                queue.append(task)
            refs.append(ObjectRef(task.id + RESULT_SUFFIX, code, at))
        with owner.lock:
            owner.dispatch.look_at(self._shape)
            owner.dispatch.kick()
        return refs

    def ready(self, oids: list[bytes], timeout_s: float | None, *, in_order: bool) -> list[bytes]:
        """Those of the objects that are ready, after the first of them has come; in order: none after one that is not.
        Empty if the time was over before."""
        found = self._owner.ready
        if not self._owner.getting.wait(oids[:1] if in_order else oids, 1, timeout_s):
            return []
        if in_order:
            return list(takewhile(found.__contains__, oids))
        return [oid for oid in oids if oid in found]

    # ------------------------------------------------------------------ the end
    def close(self) -> None:
        """No more tasks will come: each worker is returned when it is idle."""
        with self._owner.lock:
            self._row.open = False
            self._owner.reactor.start_ticking()

    def await_idle(self) -> None:
        """Wait until every task has ended."""
        while not self._owner.getting.block_until(self._is_idle, _KEY, _LOOK_S):
            self._owner.check_open()

    def end(self) -> None:
        """Give back the workers that have nothing to do."""
        with self._owner.lock:
            self._row.open = False
            for lane in list(self._shape.lanes):
                if not lane.inflight:
                    self._owner.dispatch.release(lane)

    def abort(self, reason: str) -> None:
        """Cancel the waiting tasks, kill the workers that run a task, and return the others."""
        owner = self._owner
        with owner.lock:
            if owner.closed is not None:
                return
            self.end()
            for task in list(self._shape.queue):
                owner.cancels.cancel_task(task, force=True, recursive=True)
            for lane in self._shape.lanes:
                for task in lane.inflight.values():
                    task.cancelled = True
                owner.control.send(KillWorker(lane.worker, reason))

    def _is_idle(self) -> bool:
        shape = self._shape
        return not shape.queue and not any(lane.inflight for lane in shape.lanes)
