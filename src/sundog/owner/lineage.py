"""Losing a copy, and making it again: the lineage of one owner, carried out.

Owns the finished tasks whose results live in segments (`state/lineage.py` decides how long), and what happens
when a reader finds such a segment gone. Refuses to look for losses: a copy is lost when somebody needs it and
cannot have it. Runs under the owner's lock, in drivers and workers.

::

    get, in any process      ── CopyLost ──┐   owner of the object: drop the value, plan, run tasks again
    argument, in a worker    ── R_LOST ────┼─► (each counts against its max_retries); readers wait as they
    borrower                 ── "lost" ────┘   did the first time. No way back: the object becomes an error.

A task that runs again is the same row as before, with the same id; `rebuilding` names the results that are
wanted of it. What else it returns is there already, or is not needed, and is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sundog.exceptions import StreamingGeneratorReplayInconsistentError
from sundog.ids import PROCESS_BYTES, index_of, result_id, task_of
from sundog.owner import losses
from sundog.owner.basics import Basics
from sundog.owner.failures import note_failed
from sundog.owner.getting import Getting
from sundog.owner.objects import CopyLost
from sundog.owner.peers import Peers
from sundog.owner.replies import Replies
from sundog.owner.rows import WAITING, Task, Value, whole
from sundog.owner.streams import Streams
from sundog.state.lineage import FREED, Instruction, Lineage
from sundog.store import copies
from sundog.wire.lanes import ERROR, EXTRA_BACKPRESSURE, EXTRA_VALUES, OK
from sundog.wire.peers import CopyGone

if TYPE_CHECKING:
    from sundog.owner.interfaces import Awaiting, Calling, Dispatching
    from sundog.owner.lanes import Lane
    from sundog.wire.lanes import WireValue

_ROW_BYTES = 600  # the size of a row without the arguments of its task


class Recovery:
    """The lineage of one owner."""

    arguments: Awaiting  # set by the owner, which builds it later
    dispatch: Dispatching
    actors: Calling

    def __init__(
        self, basics: Basics, peers: Peers, getting: Getting, replies: Replies, streams: Streams
    ) -> None:
        self.basics = basics
        self.peers = peers
        self.getting = getting
        self.replies = replies
        self.streams = streams
        self.machine = Lineage(basics.config.max_lineage_bytes)
        self.rebuilt = 0  # number of tasks that ran again to rebuild lost results
        self._kept: dict[bytes, Task] = {}
        # Lost items whose generator still runs. The generator has yielded them already, so its next run makes
        # them again.
        self._later: dict[bytes, set[bytes]] = {}

    # ------------------------------------------------------------------ tasks that finish
    def finished(self, task: Task) -> None:
        """A task with results in segments is done; called before its holds end."""
        lossy = task.lossy or set()
        task.lossy = None
        if task.retries_at_close is not None:
            task.cancelled, task.retries, task.retries_at_close = False, task.retries_at_close, None
        why_not = losses.why_not(task)
        if task.needs is None and not why_not:
            _prepare(task)
        self._do(self.machine.keep(task.id, task.fn.name, lossy, task.needs or (), task.kept_bytes, why_not))
        row = self.machine.rows.get(task.id)
        if row is not None and not row.why_not:
            self._kept[task.id] = task

    def freed(self, oid: bytes) -> None:
        """An object in a segment is not referred to any more (the caller carries out what follows)."""
        task = self.basics.table.get(task_of(oid))
        if task is not None and task.lossy:
            task.lossy.discard(oid)
        self._do(self.machine.freed(oid))

    def give_up(self, oid: bytes) -> None:
        """The program freed an object of this process: the object is never rebuilt, whatever needs it."""
        task_id = task_of(oid)
        task = self.basics.table.get(task_id) or self._kept.get(task_id)
        if task is not None:
            task.given_up = {*(task.given_up or ()), oid}
            if task.rebuilding is not None:
                task.rebuilding.discard(oid)
        self.freed(oid)

    def _do(self, steps: Iterable[Instruction]) -> None:
        refs = self.basics.refs
        for kind, what in steps:
            if kind == "hold":
                refs.hold(what)
            elif kind == "drop":
                refs.drop(what)
            else:
                self._kept.pop(what, None)

    # ------------------------------------------------------------------ copies that are gone
    def lost(self, oid: bytes, segment: str) -> None:
        """A reader found that this segment of an object is gone: rebuild the object, or fail it."""
        basics = self.basics
        value = basics.objects.value(oid)
        if value is not None:
            if value[2] is None or value[2][0] != segment:
                return  # another copy has arrived
            self._let_go(oid, value)
        if oid[:PROCESS_BYTES] == basics.me:
            self.recover(oid, segment)
        else:
            self.peers.report_lost(oid, segment)
        basics.objects.carry_out()

    def lost_here(self, lost: CopyLost) -> None:
        """A thread of this process found a copy gone. Not locked."""
        basics = self.basics
        with basics.lock:
            basics.check_open()
            if lost.segment:
                self.lost(lost.oid, lost.segment)
            self.dispatch.dispatch_all()
            self.actors.dispatch_all()

    def next_copy(self, lost: CopyLost) -> Value:
        """Wait for the copy that follows a lost one; a hold on the object is left to the caller. Not locked.

        Raises:
            ObjectLostError: there is none.
        """
        basics = self.basics
        basics.ops.append((lost.oid,))
        try:
            while True:
                self.lost_here(lost)
                self.getting.await_objects([lost.oid])
                found = basics.objects.value(lost.oid)
                if found is not None:
                    return found
        except BaseException:
            basics.ops.append(lost.oid)
            raise

    def can_recover(self, oid: bytes) -> bool:
        """Whether a missing object of this process is a result in use that a task of this process made."""
        return self.machine.is_live(oid)

    def lost_elsewhere(self, process: bytes, message: CopyGone) -> None:
        """A borrower could not open this segment of an object: the borrower gets the next copy."""
        self.lost(message.oid, message.segment)
        self.peers.asked_for(process, message.oid)

    def argument_lost(self, task: Task, oid: bytes, segment: str) -> None:
        """A worker could not open an argument, so the task did not begin: the task waits for the argument
        again.
        """
        basics = self.basics
        task.lane = None
        task.state = WAITING
        if task.actor is not None:
            task.actor.put_back(task)
        self.lost(oid, segment)
        if oid not in (task.deps or ()):
            note_failed(basics, task, None, basics.wall_s(), origin=task_of(oid))
            self.replies.fail(task, whole(basics.ready[oid]))  # passed by value: no task can make it again
            return
        self.arguments.await_all(task)

    def recover(self, oid: bytes, segment: str = "") -> None:
        """Rebuild a missing object of this process, or store the error that says why that is not possible."""
        basics = self.basics
        task = basics.table.get(task_of(oid))
        if not basics.config.lineage_pinning_enabled:
            self._do(self.machine.freed(oid))
            basics.objects.fail_object(oid, losses.not_allowed(basics.segments, oid, segment))
            return
        if task is not None:
            self._join(task, oid)
            return
        failure = self._failure_of_generator(oid)
        if failure is not None:
            self._do(self.machine.freed(oid))
            basics.objects.store(oid, failure)
            return
        plan = self.machine.plan(oid, self._at_hand, self._refuses)
        if plan.chain:
            error = losses.cannot_rebuild(basics, self.machine, oid, segment, plan)
            self._do(self.machine.freed(oid))
            basics.objects.fail_object(oid, error)
            return
        tasks = [
            self._revive(task_id, self._with_lost(task_id, set(wanted))) for task_id, wanted in plan.steps
        ]
        for task in tasks:
            self.arguments.await_all(task)

    def _failure_of_generator(self, oid: bytes) -> Value | None:
        """The error that ended the first run of the generator that made an object: the object shares its fate."""
        basics = self.basics
        stream = self.streams.streams.get(task_of(oid))
        if stream is None or stream.error_at is None or stream.task.rebuilding is not None:
            return None
        value = basics.objects.value(result_id(stream.task.id, stream.error_at))
        return value if value is not None and value[0] == ERROR and value[3] is None else None

    def cancelled(self, task_id: bytes) -> None:
        """The program cancelled a task that has ended: the task does not run again."""
        task = self._kept.get(task_id)
        if task is not None and task_id not in self.basics.table:
            task.cancelled = True

    def _with_lost(self, task_id: bytes, wanted: set[bytes]) -> set[bytes]:
        """What is wanted of a task that runs again: what a reader missed, and what went with the same node."""
        basics = self.basics
        if basics.segments.several:
            for oid in self._live_results(task_id) - wanted:
                value = basics.objects.value(oid)
                if (
                    value is not None
                    and value[2] is not None
                    and copies.is_lost(basics.segments, value[2][0])
                ):
                    self._let_go(oid, value)
                    wanted.add(oid)
        return wanted

    def replaced(self, task: Task, oid: bytes, value: Value) -> bool:
        """An item that an earlier attempt of a generator made has come again: whether the new copy takes its place."""
        basics = self.basics
        later = self._later.get(task.id)
        old = basics.objects.value(oid)
        missed = later is not None and oid in later and old is None
        gone = (
            old is not None
            and old[2] is not None
            and basics.segments.several
            and copies.is_lost(basics.segments, old[2][0])
        )
        if not missed and not gone:
            return False
        if later is not None:
            later.discard(oid)
        if old is not None:
            self._let_go(oid, old)
        if value[2] is not None:
            task.lossy = {*(task.lossy or ()), oid}
        basics.objects.store(oid, value)
        return True

    def _let_go(self, oid: bytes, value: Value) -> None:
        """Drop the value of an object whose copy is gone."""
        basics = self.basics
        assert value[2] is not None
        segment = value[2][0]
        del basics.ready[oid]
        basics.nested.forget(oid)
        for inner in value[3] or ():
            basics.refs.drop(inner)
        basics.segments.abandon(segment, remove=oid[:PROCESS_BYTES] == basics.me)
        maker = value[4]
        if maker is not None and not maker.retired:
            maker.freed.append((segment, value[2][1]))  # the worker may have the segment mapped for writing
            if not maker.inflight:
                maker.send_freed()

    def _join(self, task: Task, oid: bytes) -> None:
        """Want one more result of a task that runs."""
        if task.rebuilding is None or (not isinstance(task.fn.returns, int) and oid not in task.rebuilding):
            self._later.setdefault(task.id, set()).add(oid)
            self.streams.hurry(task)
        else:
            task.rebuilding.add(oid)

    def _at_hand(self, oid: bytes) -> bool:
        basics = self.basics
        if oid[:PROCESS_BYTES] != basics.me:
            # The owner of this object provides it. If the owner is dead or has lost the object, the rerun
            # task gets that error.
            return True
        value = basics.objects.value(oid)
        if value is not None:
            return value[0] == OK
        return task_of(oid) in basics.table or self.actors.is_scope(oid)

    def _refuses(self, oid: bytes) -> str:
        task = self._kept[task_of(oid)]
        return FREED if task.given_up is not None and oid in task.given_up else losses.why_not(task)

    def _revive(self, task_id: bytes, wanted: set[bytes]) -> Task:
        """Put a finished task back into the table, as its next attempt."""
        task = self._kept[task_id]
        needs = self.machine.needs_of(task_id)
        for need in needs:
            self._hold(need)
        if task.retries > 0:
            task.retries -= 1
        task.attempt += 1
        task.holds = list(needs) or None
        task.rebuilding = wanted
        task.state = WAITING
        task.lane = None
        task.submit_s = self.basics.wall_s()
        self.rebuilt += 1
        self.basics.table[task_id] = task
        if task.actor is not None:
            task.actor.put_back(task)  # a call that waits for this one may be in the same queue
        return task

    def _hold(self, need: bytes) -> None:
        """Hold the objects that a rerun task needs; objects freed in the meantime have no hold left."""
        basics, machine = self.basics, self.machine
        known = (
            need[:PROCESS_BYTES] != basics.me
            or need in basics.ready
            or need in basics.refs.owned
            or machine.is_live(need)
        )
        if known or task_of(need) not in machine.rows:
            basics.refs.hold(need)
            return
        basics.refs.hold_new(need)
        basics.freed_early.discard(need)
        machine.revived(need)
        task = basics.table.get(task_of(need))
        if task is not None:
            self._join(task, need)

    # ------------------------------------------------------------------ results that come again
    def arrived(self, task: Task, first: int, values: list[WireValue], lane: Lane) -> None:
        """All results of a task that ran again, the first of which has the index `first`."""
        basics = self.basics
        wanted, task.rebuilding = task.rebuilding or set(), None
        task.lossy = self._live(task)
        stored: list[tuple[bytes, Value]] = []
        for index, value in enumerate(values, first):
            oid = result_id(task.id, index)
            full = self._received(value, lane)
            if self._is_wanted(task, wanted, oid, full):
                stored.append((oid, full))
        self.replies.done(task)
        for oid, full in stored:
            basics.objects.store(oid, full)
        self._missing(task, wanted)

    def item(self, task: Task, index: int, value: WireValue, lane: Lane) -> None:
        """One item of a generator that runs again."""
        oid = result_id(task.id, index)
        if task.lossy is None:
            task.lossy = self._live(task)
        full = self._received(value, lane)
        if self._is_wanted(task, task.rebuilding or set(), oid, full):
            self.basics.objects.store(oid, full)
        self.basics.objects.carry_out()
        if not task.rebuilding and not task.cancelled:
            self.streams.give_up(task)  # the generator may never end

    def ended(self, task: Task) -> None:
        """A generator that ran again has returned."""
        wanted, task.rebuilding = task.rebuilding or set(), None
        if task.lossy is None:
            task.lossy = self._live(task)
        self.replies.done(task)
        self._missing(task, wanted)

    def failed(self, task: Task, value: Value) -> None:
        """A rerun task has failed and is done. The wanted results become its error."""
        wanted, task.rebuilding = task.rebuilding or set(), None
        for oid in wanted:
            self._do(self.machine.freed(oid))
            self.basics.objects.store(oid, value)  # stores nothing if no process needs the object any more
        self.resume(task)

    def was_stale_cancel(self, task: Task) -> bool:
        """Whether a cancel ended another attempt than the one it was meant for; then the task is sent again."""
        if task.cancelled or task.rebuilding is None:
            return False
        task.state = WAITING
        task.lane = None
        if task.actor is not None:
            task.actor.put_back(task)
        self.arguments.await_all(task)
        return True

    def resume(self, task: Task) -> None:
        """A task is done: rebuild results that were lost in the meantime."""
        for oid in self._later.pop(task.id, ()):
            if oid not in self.basics.ready and self.machine.is_live(oid):
                self.recover(oid)
        self.basics.objects.carry_out()

    def _live(self, task: Task) -> set[bytes]:
        return self._live_results(task.id)

    def _live_results(self, task_id: bytes) -> set[bytes]:
        row = self.machine.rows.get(task_id)
        return set(row.live) if row is not None else set()

    def _received(self, value: WireValue, lane: Lane) -> Value:
        if value[3]:
            self.basics.refs.accept(lane.worker, value[3])
        return (*value, lane if value[2] else None)

    def _is_wanted(self, task: Task, wanted: set[bytes], oid: bytes, value: Value) -> bool:
        """Whether the result of a rerun is to be stored; if not, it is dropped here."""
        assert task.lossy is not None
        basics = self.basics
        if oid in wanted:
            wanted.discard(oid)
            if oid not in basics.freed_early:
                # A result that is small this time is kept in this process's memory and cannot be lost.
                (task.lossy.add if value[2] is not None else task.lossy.discard)(oid)
                return True
            basics.freed_early.discard(oid)
            task.lossy.discard(oid)
        basics.objects.discard(value)
        return False

    def _missing(self, task: Task, wanted: set[bytes]) -> None:
        """The wanted results that did not come although the task has ended."""
        for oid in wanted:
            self._do(self.machine.freed(oid))
            self.basics.objects.fail_object(
                oid,
                StreamingGeneratorReplayInconsistentError(
                    f"Object {oid.hex()}, item {index_of(oid)} of {task.fn.name}() (task {task.id.hex()}), was lost, "
                    "and the generator yielded fewer items when it ran again. A generator whose items are to be "
                    "made again must yield the same items each time.",
                    task_id=task.id.hex(),
                    object_ref_hex=oid.hex(),
                ),
            )
        self.resume(task)


def _prepare(task: Task) -> None:
    """Store what a finished task would need to run again: small values themselves, and the ids of large ones."""
    deps = task.deps or []
    needs = dict.fromkeys((task.holds or [])[len(deps) :])
    saved = {}
    args = task.args
    size = _ROW_BYTES + (len(args) if type(args) is bytes else args[3][1] if args is not None else 0)
    extra = dict(task.extra or ())
    for oid, value in extra.pop(EXTRA_VALUES, ()):
        if value[2] is not None:
            needs[oid] = None
        else:
            saved[oid] = value
            size += len(value[1])
            needs.update(dict.fromkeys(value[3] or ()))
    extra.pop(EXTRA_BACKPRESSURE, None)  # no consumer reads the items that are made again
    task.extra = extra or None
    task.needs, task.saved, task.kept_bytes = tuple(needs), saved or None, size
