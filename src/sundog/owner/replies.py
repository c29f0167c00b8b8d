"""What workers answer: results into the table, errors into retries or failures, deaths into either.

Runs under the owner's lock, in whichever thread reads the sockets. `handle` is on the hot path: the
one small result of a task is dealt with in line, everything else goes through `_slow`.
"""

from __future__ import annotations

import time
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from sundog import events
from sundog.exceptions import TaskCancelledError, TaskPlacementGroupRemoved
from sundog.ids import RESULT_SUFFIX, result_id, task_of
from sundog.net import packets
from sundog.net import sockets as socket
from sundog.owner import death_errors
from sundog.owner.basics import Basics
from sundog.owner.control import Control
from sundog.owner.failures import note_failed
from sundog.owner.lanes import Lane, LeasedLane
from sundog.owner.lost_attempts import record_lost
from sundog.owner.rows import DONE, QUEUED, Task, Value
from sundog.owner.streams import Streams
from sundog.state import backoff
from sundog.state.lease_spec import GROUP_REMOVED
from sundog.wire import lanes as wire
from sundog.wire.cause import MEMORY, Cause

if TYPE_CHECKING:
    from sundog.owner.interfaces import Bounding, Calling, Cancelling, Dispatching, MemoryJudging, Recovering
    from sundog.wire.lanes import WireValue

_perf = time.perf_counter
_ESTIMATE_MIN_S = 1e-5
_NOT_THE_END = frozenset({wire.R_ITEM, wire.R_STARTED, wire.R_STACK})


class Replies:
    """Handles replies and the deaths of workers for one owner."""

    streams: Streams  # set by the owner, which builds it later
    dispatch: Dispatching
    actors: Calling
    cancels: Cancelling
    lineage: Recovering
    memory: MemoryJudging
    timeouts: Bounding

    def __init__(self, basics: Basics, control: Control) -> None:
        self.basics = basics
        self.control = control
        self.retries = 0

    # ------------------------------------------------------------------ the hot path
    def handle(self, lane: Lane, batch: Any) -> None:
        """Take a packet of replies."""
        if type(batch) is tuple:
            batch = packets.read_big(batch[1], [])
        basics = self.basics
        if basics.ops:
            basics.objects.drain()  # count the refs born from the held objects before their hold ends
        ready, table, inflight = basics.ready, basics.table, lane.inflight
        waiters, dependents, early = basics.waiters, basics.dependents, basics.freed_early
        count = len(inflight)
        for task_id, kind, payload, seconds in batch:
            if kind:
                self._slow(lane, task_id, kind, payload, seconds)
                continue
            task = inflight.pop(task_id, None)
            if task is None:
                continue
            if task.actor is None:  # calls go to their actor, however long they take
                fn = task.fn
                lane.load_s -= task.estimate_s
                before = fn.estimate_s
                if before < 0:
                    fn.estimate_s = seconds if seconds > _ESTIMATE_MIN_S else _ESTIMATE_MIN_S
                elif seconds < before:
                    fn.estimate_s = before * 0.8 + seconds * 0.2
                else:
                    fn.estimate_s = before * 0.5 + seconds * 0.5
            task.state = DONE
            table.pop(task_id, None)
            if task.holds is not None:
                self._drop_holds(task)
            oid = task_id + RESULT_SUFFIX
            if early and oid in early:
                early.discard(oid)
                continue
            ready[oid] = payload
            if (waiters and oid in waiters) or (dependents and oid in dependents):
                basics.objects.announce(oid)
        now = lane.last_s = _perf()
        if len(inflight) != count:
            lane.setup = None
        if not inflight:
            lane.load_s = 0.0
            lane.idle_since_s = now
            if lane.reclaim:
                self.dispatch.release(lane)  # type: ignore[arg-type]
            elif not basics.reactor.ticking and self.dispatch.leases:
                basics.reactor.start_ticking()  # the lease goes back if nothing is sent to its worker soon

    # ------------------------------------------------------------------ everything else
    def _slow(self, lane: Lane, task_id: bytes, kind: int, payload: Any, seconds: float) -> None:
        if kind == wire.R_BLOCKED:
            lane.blocked = payload
            return
        if kind == wire.R_BACK:
            lane.hand_back(payload)
            return
        if kind == wire.R_EXIT:
            lane.reclaim = lane.leaving = True
            return
        if kind == wire.R_WORKER:
            # The node's message about the worker may come later, but the process that holds the refs of these
            # replies must be known now.
            self.actors.worker_known(lane, task_id, payload)
            return
        if kind in _NOT_THE_END:
            task = lane.inflight.get(task_id)
            if task is None:
                self._late(lane, kind, payload)
            elif kind == wire.R_ITEM:
                self.streams.item(task, payload[0], payload[1], lane)
            elif kind == wire.R_STARTED:
                self.timeouts.started(task)
            else:
                task.stack = payload
            return
        task = lane.inflight.pop(task_id, None)
        if task is None:
            self._late(lane, kind, payload)
            return
        lane.load_s -= task.estimate_s
        if kind == wire.R_ERROR:
            self._failed(lane, task, *payload)
        elif kind == wire.R_LOST:
            oid, segment, held = payload
            self.basics.refs.reply_held(lane.worker, held)
            if task.cancelled:
                self.cancels.fail(task)
            else:
                self.lineage.argument_lost(task, oid, segment)
        else:
            self._returned(lane, task, kind, payload, seconds)

    def _returned(
        self,
        lane: Lane,
        task: Task,
        kind: int,
        payload: Any,
        seconds: float,
    ) -> None:
        """A task has returned: large or several values, refs in them, or the end of a generator."""
        values, held = payload
        self.basics.refs.reply_held(lane.worker, held)
        task.fn.estimate_s = seconds if task.fn.estimate_s < 0 else (task.fn.estimate_s + seconds) / 2
        if task.rebuilding is not None:
            if kind == wire.R_END:
                self.lineage.ended(task)
            else:
                self.lineage.arrived(task, 2 if kind == wire.R_DYNAMIC else 1, values, lane)
            return
        if kind == wire.R_END:
            self.done(task)
            self.streams.ended(task, values)
            return
        if kind == wire.R_DYNAMIC:
            for value in values:
                self._accept(lane, value)
            _note_lossy(task, 2, values)
            self.done(task)
            self.streams.dynamic(task, values, lane)
            return
        for value in values:
            self._accept(lane, value)
        _note_lossy(task, 1, values, self.basics.freed_early)
        self.done(task)
        for index, value in enumerate(values, 1):
            self.basics.objects.store(result_id(task.id, index), value + (lane if value[2] else None,))
        self.basics.objects.carry_out()

    def _late(self, lane: Lane, kind: int, payload: Any) -> None:
        """The reply of a call that was given up: the value is dropped, but refs that came with it are
        counted.
        """
        basics = self.basics
        values = []
        held: list[bytes] = []
        if kind == wire.R_ITEM:
            values = [payload[1]]
        elif kind == wire.R_ERROR:
            values, held = [payload[1], *(payload[3] if len(payload) > 3 else ())], payload[2]
        elif kind in (wire.R_VALUES, wire.R_DYNAMIC):
            values, held = payload
        elif kind == wire.R_END:
            held = payload[1]
        elif kind == wire.R_LOST:
            held = payload[2]
        basics.refs.reply_held(lane.worker, held)
        for value in values:
            self._accept(lane, value)
            basics.objects.discard((*value, lane if value[2] else None))
        basics.objects.carry_out()

    def _accept(self, lane: Lane, value: WireValue) -> None:
        if value[3]:
            self.basics.refs.accept(lane.worker, value[3])

    def done(self, task: Task) -> None:
        """A task has ended: release what it held."""
        task.state = DONE
        self.basics.table.pop(task.id, None)
        if task.lossy is not None:
            self.lineage.finished(task)
        if task.holds is not None:
            self._drop_holds(task)

    def _drop_holds(self, task: Task) -> None:
        refs = self.basics.refs
        for oid in task.holds or ():
            refs.drop(oid)
        task.holds = None
        self.basics.objects.carry_out()

    # ------------------------------------------------------------------ failing and retrying
    def _failed(
        self,
        lane: Lane,
        task: Task,
        retryable: object,
        value: WireValue,
        held: list[bytes],
        made: list[WireValue] | None = None,
    ) -> None:
        """A task raised. `made`: the items that a generator with a fixed or dynamic number of results had
        yielded before.
        """
        basics = self.basics
        basics.refs.reply_held(lane.worker, held)
        again = retryable is True and not task.cancelled and self._may_retry(task)
        stale = retryable in (None, wire.CANCELLED) and self.lineage.was_stale_cancel(task)
        cancelled = retryable is None or (retryable is True and task.cancelled)
        if made is not None and task.rebuilding is not None and not (again or stale or cancelled):
            first = 2 if task.fn.returns == "dynamic" else 1
            self.lineage.arrived(task, first, [*made, value], lane)
            return
        for each in (value, *(made or ())):
            self._accept(lane, each)
        if again or stale or cancelled:
            basics.objects.discard((*value, None))
            for each in made or ():
                basics.objects.discard((*each, lane if each[2] else None))
            basics.objects.carry_out()
        if again:
            self.retry(task, backoff.EXCEPTION)
        elif stale:
            return  # the task was sent once more
        elif cancelled:
            # A cancelled task that would have been retried ends as cancelled, not with the error of this
            # attempt.
            self.cancels.fail(task, "before it ran" if retryable is None else "before its next attempt")
        else:
            if retryable != wire.CANCELLED:
                basics.unread.raised(task)
            self.fail(task, value + (lane,), made, lane)

    def fail(self, task: Task, value: Value, made: list[WireValue] | None = None, lane: Any = None) -> None:
        """End a task: each of its results is this error, except results that a generator had already made."""
        if task.state == DONE:
            return
        returns = task.fn.returns
        if made:
            _note_lossy(task, 2 if returns == "dynamic" else 1, made, self.basics.freed_early)
        self.done(task)
        if task.rebuilding is not None:
            self.lineage.failed(task, value)
        elif isinstance(returns, int):
            for index, each in enumerate(made or (), 1):
                self.basics.objects.store(result_id(task.id, index), each + (lane if each[2] else None,))
            for index in range(len(made or ()) + 1, returns + 1):
                self.basics.objects.store(result_id(task.id, index), value)
        elif made is not None:
            self.streams.dynamic(task, [*made, value[:4]], lane)
        elif returns == "dynamic":
            self.basics.objects.store(task.id + RESULT_SUFFIX, value)
        else:
            self.streams.failed(task, value)
            self.lineage.resume(task)
        if task.actor is not None:
            self.actors.settle(task.actor)

    def fail_with(self, task: Task, error: BaseException) -> None:
        """End a task with an error of the system's."""
        if task.state != DONE:
            note_failed(self.basics, task, error, self.basics.wall_s())
        value = self.basics.objects.error_value(error)
        if task.fn.returns == "streaming" and task.state != DONE:
            self.streams.of(task).error = value
        self.fail(task, value)

    def fail_by_argument(self, task: Task, oid: bytes, value: Value) -> None:
        """End a task whose argument is an error: it ends with the same error, as an error of a task."""
        note_failed(self.basics, task, None, self.basics.wall_s(), origin=task_of(oid))
        wrapped = death_errors.argument_error(task, value[1])
        self.fail(task, value if wrapped is None else self.basics.objects.error_value(wrapped))

    def _may_retry(self, task: Task) -> bool:
        return task.retries != 0

    def retry(self, task: Task, why: str) -> None:
        """Make another attempt, after the delay that `state.backoff` has for this reason."""
        if task.retries > 0:
            task.retries -= 1
        self.begin_attempt(task)
        self.requeue_later(task, backoff.delay_s(task.attempt, why, task.id))

    def requeue_later(self, task: Task, delay_s: float) -> None:
        """Queue an attempt for which `begin_attempt` was called, after its delay."""
        if task.fn.queue_timeout_s is not None:
            self.timeouts.watch(task, delay_s)
        if delay_s:
            self.basics.agenda.after(delay_s, task, self._requeue, task)
        else:
            self._requeue(task)

    def begin_attempt(self, task: Task) -> None:
        """Count up the task's attempt; the new attempt is in no queue yet."""
        task.attempt += 1
        self.retries += 1
        task.state = QUEUED
        task.lane = None
        task.stack = ""

    def _requeue(self, task: Task) -> None:
        link = task.actor
        if link is None:
            self.dispatch.look_at(task.fn.shape).queue.append(task)
        elif link.state == "DEAD":  # the actor died during the delay of the call
            self.fail_with(task, self.actors.died_error(link, task))
        else:
            link.requeue([task])

    # ------------------------------------------------------------------ death of a worker
    def worker_died(self, worker: bytes, cause: Cause) -> None:
        """The node reports that a worker is gone: read its last messages, then retry or fail the remaining
        tasks.
        """
        lane = self.dispatch.lanes.pop(worker, None)
        if lane is None:
            return
        self.drain_lane(lane)
        lane.blocked = True  # makes take_back empty the socket
        lane.take_back()
        self.close_lane(lane)
        lost = self.sort_lost(worker, lane.inflight)
        lane.inflight = {}
        record_lost(self.basics, self.control, lost, worker)
        for task in lost:
            self._lost(task, lane, cause)

    def drain_lane(self, lane: Lane) -> None:
        """Read the replies that a dead worker managed to send: nothing that finished runs twice."""
        while True:
            try:
                data = lane.sock.recv(  # type: ignore[union-attr]
                    packets.RECV_BYTES, socket.MSG_DONTWAIT
                )
            except ConnectionResetError:
                continue  # the actor died with unread calls; this is reported once, and before its replies
            except OSError:
                return
            if not data:
                return
            self.handle(lane, packets.decode(data) or [])

    def remove_unsent(self, worker: bytes) -> None:
        """Remove segments that a dead worker wrote for this owner and never reported: no reply names them."""
        basics = self.basics
        for link in self.actors.links.values():
            if link.worker == worker and link.sock is not None:
                self.drain_lane(link)
        self.remove_unknown(basics.segments.made_by(worker))

    def remove_unknown(self, made: set[str]) -> None:
        """Remove those segments of a dead worker's making that none of our objects is in."""
        basics = self.basics
        if made:
            values = list(basics.ready.values())
            known = {value[2][0] for value in values if isinstance(value, tuple) and value[2] is not None}
            for name in made - known:
                basics.segments.unlink(name)

    def close_lane(self, lane: LeasedLane) -> None:
        """Forget a lane whose worker is gone."""
        lane.retired = True
        if lane.shape is not None and lane in lane.shape.lanes:
            lane.shape.lanes.remove(lane)
        self.dispatch.leases.pop(lane.lease, None)
        if lane.sock is not None:
            self.basics.reactor.remove(lane.sock.fileno())
        lane.close()
        for name, _ in lane.freed:
            self.basics.segments.unlink(name)
        lane.freed = []

    def sort_lost(self, worker: bytes, inflight: dict[bytes, Task]) -> list[Task]:
        """Which tasks a dead worker may have begun; those it certainly had not are queued again for free.

        A worker notes each start in its flight recorder, and runs a packet in order.
        """
        tasks = list(inflight.values())
        ring = self.control.ring_path(worker)
        if not self.basics.config.record_enabled or events.pid_of(ring) is None:
            return (
                # the worker read them and left no evidence: the disk was full, or the folder was removed
                tasks
            )
        last, _ = events.sent_last(ring)
        begun = 0
        for position, task in enumerate(tasks, 1):
            if task.id == last:
                begun = position
        fresh = tasks[begun:]
        plain = [task for task in fresh if task.actor is None]
        self.dispatch.requeue(None, plain)
        return [task for task in tasks if task not in plain] if len(plain) < len(tasks) else []

    def _lost(self, task: Task, lane: Lane, cause: Cause) -> None:
        if task.cancelled:
            self.fail_with(
                task,
                TaskCancelledError(
                    f"Task {task.fn.name} ({task.id.hex()}) was cancelled.", task_id=task.id.hex()
                ),
            )
        elif cause.reason == GROUP_REMOVED:
            self.fail_with(
                task,
                TaskPlacementGroupRemoved(
                    f"Task {task.fn.name} ({task.id.hex()}) ended because its placement group was removed.",
                    task_id=task.id.hex(),
                ),
            )
        elif cause.kind == MEMORY:
            self.memory.lost(task, lane, cause)
        elif task.overdue:
            self.timeouts.killed(task)
        elif self._may_retry(task):
            self.retry(task, backoff.CRASH)
        else:
            output = self.control.log_path(lane.worker)
            self.fail_with(task, death_errors.task_error(task, lane.worker, lane.pid, cause, output))


def _note_lossy(task: Task, first: int, values: list[WireValue], early: Container[bytes] = ()) -> None:
    """Note which results live in segments: they may be lost, and their task is kept to make them again."""
    for index, value in enumerate(values, first):
        if value[2] is not None:
            oid = result_id(task.id, index)
            if oid not in early:
                task.lossy = task.lossy or set()
                task.lossy.add(oid)
