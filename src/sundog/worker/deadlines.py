"""How long tasks run here: `timeout_s` measured, and `queue_timeout_s` decided.

Owns which tasks with such a bound run in this worker, and which will never be begun. Tasks without one never come
here. A deadline rings in the reader thread (or in the main thread, if it reads), under the owner's lock::

    begin ──► R_STARTED ──timeout_s──► R_STACK, then ended like a cancel: interrupted, or cancelled in its event loop
                                       a thread cannot be interrupted: its call is answered and goes on unheard
    expire(task) from its owner: begun ──► R_STARTED       not begun ──► R_ERROR now, and skipped when its turn comes

`begin` and `expire` may meet in two threads: the first to take the lock decides, so that a task which was said not
to have been begun never is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.exceptions import TaskTimeoutError
from sundog.owner import context
from sundog.owner.core import Owner
from sundog.owner.fault_dumps import SIGNAL as STACK_SIGNAL
from sundog.owner.rows import DONE, SENT
from sundog.owner.timeouts import queue_error, run_error
from sundog.serialize.pack import pack
from sundog.wire import lanes as wire
from sundog.wire.peers import Expire
from sundog.worker import stacks

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sundog.worker.answers import AnswerLane

_EXPIRED_MAX = 10_000


class BoundRun:
    """One task with a bound that runs here."""

    __slots__ = (
        "attempt",
        "coroutine",
        "lane",
        "name",
        "stack",
        "start_s",
        "state",
        "task_id",
        "thread",
        "timeout_s",
    )

    def __init__(
        self, lane: AnswerLane, item: wire.Item, coroutine: Coroutine[object, object, object] | None
    ) -> None:
        self.task_id, what, _, _, extra = item
        fn = lane.fns.get(what) if type(what) is int else None
        own = fn.name if fn is not None else f"{context.facts.actor_class}.{what}"
        self.name: str = extra.get(wire.EXTRA_NAME) or own
        self.timeout_s: float = extra[wire.EXTRA_TIMEOUT]
        self.attempt: int = extra.get(wire.EXTRA_ATTEMPT, 0)
        self.lane = lane
        self.thread = threading.get_ident()
        self.coroutine = coroutine
        self.start_s = time.perf_counter()
        self.stack: str | None = None  # the stack at the moment of the timeout; None before it
        self.state = SENT  # the agenda reads this field of a task

    def where(self) -> str:
        """Its stack now."""
        if self.coroutine is not None and not getattr(self.coroutine, "cr_running", False):
            return stacks.of_coroutine(self.coroutine)
        return stacks.of_thread(self.thread)


class Deadlines:
    """The bounded tasks of one worker."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.shm_root = owner.control.shm_root
        self.running: dict[bytes, BoundRun] = {}
        self.end_call: Callable[[bytes], bool] = lambda _: (
            False
        )  # set by serving: returns False if the task cannot be ended
        self.busy_with: Callable[[], str] = str  # set by serving: the stack of what runs here now
        self._expired: dict[bytes, None] = {}
        self._lock = threading.Lock()
        self._dump: object = None

    # ------------------------------------------------------------------ the thread that runs it
    def begin(
        self,
        lane: AnswerLane,
        item: wire.Item,
        coroutine: Coroutine[object, object, object] | None = None,
    ) -> bool:
        """A task is about to run; False if the owner has been told that the task will never run."""
        run = BoundRun(lane, item, coroutine)
        with self._lock:
            if run.task_id in self._expired:
                del self._expired[run.task_id]
                return False
            self.running[run.task_id] = run
        if run.timeout_s:
            self._listen()
            lane.reply((run.task_id, wire.R_STARTED, None, 0.0), 16, self.shm_root)
            lane.flush(self.shm_root)
            with self.owner.lock:
                self.owner.agenda.bound(run.timeout_s, run, self._overdue, run)
        return True

    def end(self, task_id: bytes) -> None:
        """Its reply is queued."""
        with self._lock:
            run = self.running.pop(task_id, None)
        if run is not None:
            run.state = DONE

    def _listen(self) -> None:
        """From now on the fault handler writes the stacks to a file of this worker on request."""
        if self._dump is None:
            # Without the file (full disk, no descriptor), a task that hangs is ended without its stack.
            with contextlib.suppress(RuntimeError, ValueError, OSError):
                self._dump = open(self.owner.control.stack_path(self.owner.me), "wb", buffering=0)
                faulthandler.register(STACK_SIGNAL, self._dump, all_threads=False)

    # ------------------------------------------------------------------ the thread that reads (locked)
    def _overdue(self, run: BoundRun) -> None:
        run.stack = run.where()
        run.lane.reply((run.task_id, wire.R_STACK, run.stack, 0.0), len(run.stack), self.shm_root)
        run.lane.flush(self.shm_root)
        if not self.end_call(run.task_id):
            error = self._error(
                run, "A call in a thread cannot be interrupted, so it still runs.", goes_on=True
            )
            self._answer(run.lane, run.task_id, error)

    def expire(self, owner_id: bytes, message: Expire, lanes: list[AnswerLane]) -> None:
        """The owner of a task asks that the task not be begun any more."""
        _, task_id, name, queue_timeout_s, attempt = message
        with self._lock:
            begun = self.running.get(task_id)
            if begun is None:
                self._expired[task_id] = None
                while len(self._expired) > _EXPIRED_MAX:
                    del self._expired[next(iter(self._expired))]
        if begun is not None:
            if not begun.timeout_s:  # otherwise the owner was told when the task began
                begun.lane.reply((task_id, wire.R_STARTED, None, 0.0), 16, self.shm_root)
                begun.lane.flush(self.shm_root)
            return
        why = "its worker has other work to do first."
        error = queue_error(
            task_id,
            name,
            attempt,
            queue_timeout_s,
            why,
            stack=self.busy_with(),
            worker=self.owner.me,
            pid=os.getpid(),
        )
        # A process that ran tasks of this owner before it became an actor has two lanes to the owner. The
        # answer is ignored on the lane where the task is unknown.
        for lane in lanes:
            if lane.owner_id == owner_id:
                self._answer(lane, task_id, error)

    def _answer(self, lane: AnswerLane, task_id: bytes, error: BaseException) -> None:
        meta, _, _ = pack(error, 1 << 62)
        payload: object = (False, (wire.ERROR, meta, None, None), [])
        lane.reply((task_id, wire.R_ERROR, payload, 0.0), len(meta), self.shm_root)
        lane.flush(self.shm_root)

    # ------------------------------------------------------------------ errors
    def error_of(self, task_id: bytes) -> TaskTimeoutError | None:
        """The error of a task that ends because of its time limit; None if it ends for another reason."""
        run = self.running.get(task_id)
        if run is None or run.stack is None:
            return None
        return self._error(run, "It was interrupted.", goes_on=False)

    def _error(self, run: BoundRun, outcome: str, *, goes_on: bool) -> TaskTimeoutError:
        return run_error(
            run.task_id,
            run.name,
            run.attempt,
            run.timeout_s,
            outcome,
            stack=run.stack or "",
            worker=self.owner.me,
            pid=os.getpid(),
            output=self.owner.control.log_path(self.owner.me),
            goes_on=goes_on,
        )
