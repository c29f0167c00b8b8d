"""Actors that run several calls at a time in threads, by concurrency group.

The main thread reads lanes and hands each call to the pool of its group (`call_pool.py`); pools start calls in the
order they came. Replies are flushed by the thread that made them.
"""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING

from sundog.owner.core import Owner
from sundog.owner.long_waits import Places
from sundog.state.wait_facts import RunSlot
from sundog.wire import lanes as wire
from sundog.worker import stacks
from sundog.worker.answers import AnswerLane
from sundog.worker.call_pool import STUCK_S, CallPool
from sundog.worker.executor import Executor
from sundog.worker.meter import ThreadsMeter
from sundog.worker.sampler import Call, stack_of
from sundog.worker.serving import Serving

if TYPE_CHECKING:
    from sundog.wire.lanes import Extra

_perf = time.perf_counter
_SHOWN_MAX = 4
_FLUSH_S = 1e-3


def group_of(cls: type, method: str, extra: Extra | None) -> str:
    """The concurrency group of a call: the call's own, else the method's, else the default."""
    if extra is not None:
        group = extra.get(wire.EXTRA_GROUP)
        if group:
            return str(group)
    options = getattr(getattr(cls, method, None), "__sundog_method__", None)
    return str((options or {}).get("concurrency_group") or "")


class ThreadedServing(Serving):
    """Serves an actor with max_concurrency > 1 or concurrency groups."""

    def __init__(
        self, owner: Owner, executor: Executor, limit: int, groups: dict[str, int], cls: type
    ) -> None:
        super().__init__(owner, executor)
        self.open()
        executor.concurrent = True
        executor.meter = ThreadsMeter(executor.ring)
        self.cls = cls
        self.pools = {name: CallPool(size, name, self._one) for name, size in {**groups, "": limit}.items()}
        self._pending: dict[bytes, str] = {}  # calls that have not begun -> their concurrency group
        self._running: dict[bytes, str] = {}
        self._count = threading.Lock()
        self._active = 0
        self._finish: str | None = None
        self._flushed_s = 0.0

    def _run_todo(self) -> None:
        while self.todo:
            lane, item = self.todo.popleft()
            group = group_of(self.cls, item[1], item[4])
            pool = self.pools.get(group)
            if pool is None:
                self._reject(lane, item, group)
                continue
            with self._count:
                self._active += 1
                self._pending[item[0]] = group
            pool.submit(lane, item)
            self.look_again_s = STUCK_S

    def _look_again(self) -> None:
        """Whether calls wait behind one that blocks."""
        looks = [after_s for pool in self.pools.values() if (after_s := pool.look()) > 0]
        self.look_again_s = min(looks, default=-1.0)

    def _spin(self, lane: AnswerLane) -> int:
        """No spinning: it would take the interpreter lock from the calls."""
        return -1

    def _reject(self, lane: AnswerLane, item: wire.Item, group: str) -> None:
        known = sorted(name for name in self.pools if name)
        error = ValueError(f"This actor has no concurrency group {group!r}; it has {known}.")
        self.executor.reply_error(lane, item[0], str(item[1]), error, False, [], 0.0)
        lane.flush(self.shm_root)

    def _one(self, lane: AnswerLane, item: wire.Item) -> None:
        with self._count:
            group = self._pending.pop(item[0], None)
            if group is not None:
                self._running[item[0]] = group
        try:
            if group is not None and self.executor.exit_after is None:
                self.executor.run(lane, item)
                self._flush_soon(lane)
        except BaseException:
            self.fall_over()
        finally:
            with self._count:
                self._active -= 1
                self._running.pop(item[0], None)
                self.executor.cancelled.discard(item[0])
        if self.executor.exit_after is not None:
            self.exit_soon()
        elif self._finish is not None and not self._active:
            self.stopping = self._finish
            self.wake()

    def _flush_soon(self, lane: AnswerLane) -> None:
        """Send finished replies; together with the next ones, if calls wait that may end within a
        millisecond.
        """
        now = _perf()
        if self._pending and now - self._flushed_s < _FLUSH_S:
            self.guard.watch_item()  # the calls may be long
            return
        self._flushed_s = now
        lane.flush(self.shm_root)

    def cancel(self, task_id: bytes, recursive: bool) -> None:
        """A call that has not begun can be cancelled; a thread cannot be interrupted, but what it waits for can.

        It is told, if it asks: `get_runtime_context().is_canceled()`.
        """
        if recursive:
            self.owner.cancels.cancel_children_of(task_id)
        with self._count:
            if task_id in self._running:
                self.executor.attention = (
                    True  # before the next line, for the call may ask and return at once
                )
                self.executor.cancelled.add(task_id)
                self._open_gate(task_id)
                return
            if task_id not in self._pending:
                self.cancel_early(task_id)
                return
            del self._pending[task_id]
        for lane in list(self.lanes.values()):
            self._reply_cancelled(lane, task_id)

    def end_call(self, task_id: bytes) -> bool:
        """A thread cannot be interrupted."""
        return False

    def busy_with(self) -> str:
        """Where the calls are that run in the pools' threads."""
        threads = [ident for pool in self.pools.values() for ident in pool.idents()]
        found = [stacks.of_thread(ident, only_users=True) for ident in threads]
        return "\n  and\n".join(stack for stack in found[:_SHOWN_MAX] if stack)

    def places(self, main_runs: bytes) -> Places:
        """The groups, with what runs and what waits in each."""
        with self._count:
            running, pending = dict(self._running), tuple(self._pending.items())
        slots = tuple(
            RunSlot(group, pool.size, tuple(task for task, each in running.items() if each == group))
            for group, pool in self.pools.items()
        )
        return slots, pending, False

    def finish_then_stop(self, reason: str) -> None:
        """End when the calls that are here have ended."""
        self._finish = reason
        with self._count:
            idle = not self._active
        if idle:
            self.stopping = reason
            self.wake()

    def exit_soon(self) -> None:
        """End when the running calls have ended; calls that have not begun will not begin. Any thread."""
        with self._count:
            idle = not self._running
        if idle:
            self.stopping = self.executor.exit_after
            self.wake()

    def oldest_call(self) -> Call | None:
        """The call that has been running longest, for the sampler."""
        found = _calls_in_threads()
        if not found:
            return super().oldest_call()
        start, task_id, innermost = min(found, key=lambda each: each[0])
        return task_id, start, stack_of(innermost)

    def running_calls(self) -> dict[bytes, float]:
        """The calls that run in threads, and since when."""
        return {task_id: start for start, task_id, _ in _calls_in_threads()}

    def before_block(self) -> None:
        """Other calls continue while one blocks: the actor keeps its CPU."""
        self._flush_all()

    def after_block(self) -> None:
        """Nothing was given back."""
        time.sleep(0)


def _calls_in_threads() -> list[tuple[float, bytes, FrameType]]:
    """Start, id and innermost frame of each call that a thread of this process runs."""
    found: list[tuple[float, bytes, FrameType]] = []
    for innermost in sys._current_frames().values():
        for frame in stack_of(innermost):
            if frame.f_code is Executor._run_any.__code__:
                names = frame.f_locals
                if "start" in names:
                    found.append((names["start"], names["task_id"], innermost))
                break
    return found
