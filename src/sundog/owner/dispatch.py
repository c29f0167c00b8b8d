"""Sending tasks to leased workers: batches, prefetch, stealing back, leases asked for and returned.

Everything here runs under the owner's lock. The rules:

- A task goes out at once if a leased worker is idle; otherwise tasks are coalesced, up to `batch_max`
  in a packet.
- A packet holds `prefetch_ms` of work, by a moving estimate per function, and more while far more waits. A few packets
  of short tasks may wait at a worker, or one more packet of longer ones: the worker has work while the owner waits for
  a core. A function never seen counts as long, so unknown tasks spread and known tiny ones batch.
- When a worker idles while another has unread packets, they are taken back from that socket.
- The node is told how many more leases each shape could use; an idle lease goes back after
  `idle_lease_ms`, at once if another shape of ours waits or the node asks for it.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from sundog import events
from sundog.ids import number_of
from sundog.net import packets
from sundog.owner.basics import Basics
from sundog.owner.cancels import Cancels
from sundog.owner.control import Control
from sundog.owner.lanes import LeasedLane
from sundog.owner.replies import Replies
from sundog.owner.rows import ALWAYS, QUEUED, ROOM_AGAIN_S, SENT, Fn, Shape, Task
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.control import LeaseGranted, OpenLane, Release, ReturnLease
from sundog.wire.lanes import EXTRA_ATTEMPT, Extra, FnWire, Item

if TYPE_CHECKING:
    from collections import deque

    from sundog.owner.interfaces import Calling
    from sundog.wire.dicts import LeaseSetup


_perf = time.perf_counter
_UNKNOWN_S = 1.0
_SHAPES_MIN = 64
# a task that is sent alone within this time counts as sent at submission: no event is recorded
_AT_ONCE_S = 1e-3
_INFLIGHT_MAX = 256
_WANT_MAX = 512
_WANT_MANY = 16  # above this want the node is told less often: granted leases count the want down
_TELL_S = 0.25
_KNOWN_MAX = 1000
_STEAL_AFTER_S = 5e-3
_LONG_FACTOR = 1.5  # a task that runs so many times as long as usual keeps no other one waiting (arbitrary)
_PORTION_MAX = 20  # times `prefetch_ms`, in one packet (docs/decisions/0025)
_PORTIONS = 4  # a packet holds at most this part of what waits for each worker
_CALM_TICKS = 5  # times `idle_lease_ms`: how often the owner looks at its leases while all of them have work
_AHEAD = 4  # packets of short tasks that may wait at a worker (docs/decisions/0009)


class Dispatch:
    """The queues and lanes of one owner's normal tasks."""

    actors: Calling  # set by the owner, which builds it later

    def __init__(self, basics: Basics, control: Control, replies: Replies, cancels: Cancels) -> None:
        self.basics = basics
        self.control = control
        self.replies = replies
        self.cancels = cancels
        self.batch_max = basics.config.batch_max
        self.packet_max = basics.config.packet_max_bytes
        self.prefetch_s = basics.config.prefetch_ms / 1e3
        self.ahead_s = _AHEAD * self.prefetch_s
        self.idle_lease_s = basics.config.idle_lease_ms / 1e3
        self.shapes: list[Shape] = []  # shapes with work, and some that had work
        self.shapes_by_key: dict[int, Shape] = {}  # the same shapes by key
        self.shapes_by_spec: dict[tuple[LeaseSpec, bool], Shape] = {}
        self._keys = itertools.count(1)
        self._sweep_at = _SHAPES_MIN
        self.lanes: dict[bytes, LeasedLane] = {}  # worker -> lane, leased or parked
        self.leases: dict[int, LeasedLane] = {}
        self._tell_at = 0.0  # when the node may next be told of a changed large want
        self._untold = False  # the want has changed since the node was last told

    # ------------------------------------------------------------------ entry points
    def send_now(self, shape: Shape) -> None:
        """A worker of this shape idles (or there is none yet): send without looking at anything else."""
        with self.basics.lock:
            if self.basics.closed is not None:
                self.basics.check_open()
            self._dispatch(shape)
            if shape.queue or not shape.lanes:
                self.look_at(shape)
                self._update_want(shape)

    def kick(self) -> None:
        """Send what can be sent; also read what is there, unless a leader reads already."""
        basics = self.basics
        with basics.lock:
            basics.check_open()
            if not basics.reactor.leader:
                basics.reactor.glance()
            else:
                self.dispatch_all()
                self.actors.dispatch_all()

    def dispatch_all(self) -> None:
        """Send queued tasks of every shape, and settle how many leases each needs."""
        for shape in self.shapes:
            if shape.queue:
                self._dispatch(shape)
            elif shape.crowded:
                shape.crowded = any(len(lane.inflight) > 1 for lane in shape.lanes)
                self.basics.reactor.tick_every(self.idle_lease_s)
                if len(shape.lanes) > 1:
                    self._steal(shape)
            elif not shape.wanted:
                continue  # lanes with one task at a time have nothing to settle
            self._update_want(shape)

    # ------------------------------------------------------------------ shapes
    def look_at(self, shape: Shape | None) -> Shape:
        """A shape is about to have work: register it again if it was forgotten."""
        assert shape is not None
        if shape.key not in self.shapes_by_key:
            self.shapes_by_key[shape.key] = shape
            self.shapes.append(shape)
        return shape

    def shape_for(self, spec: LeaseSpec, setup: LeaseSetup) -> Shape:
        """The shape of this demand, made on first use."""
        with self.basics.lock:
            key = (spec, bool(setup.get("capture")))
            shape = self.shapes_by_spec.get(key)
            if shape is None:
                if len(self.shapes) >= self._sweep_at:
                    self._sweep_shapes()
                shape = self.shapes_by_spec[key] = self.look_at(Shape(next(self._keys), spec, setup))
            return shape

    def private_shape(self, spec: LeaseSpec, setup: LeaseSetup) -> Shape:
        """A shape for one user alone: equal demands of others do not share its queue and workers."""
        with self.basics.lock:
            return Shape(next(self._keys), spec, setup)

    def _sweep_shapes(self) -> None:
        """Forget shapes without work, since placement groups come and go. A function that is bound to a
        forgotten shape registers the shape again with its next task.
        """
        self.shapes = [shape for shape in self.shapes if shape.queue or shape.lanes or shape.wanted]
        self.shapes_by_key = {shape.key: shape for shape in self.shapes}
        by_spec = self.shapes_by_spec
        self.shapes_by_spec = {
            spec: shape for spec, shape in by_spec.items() if shape.key in self.shapes_by_key
        }
        self._sweep_at = max(_SHAPES_MIN, 2 * len(self.shapes))

    # ------------------------------------------------------------------ sending
    def _dispatch(self, shape: Shape) -> None:
        if shape.crew is not None and shape.crew.mustering:
            return
        if shape.spent is not None and self.basics.segments.several:
            self._dispatch_spread(shape, shape.spent)
            return
        queue, lanes = shape.queue, shape.lanes
        # Drop tasks that ended while they were queued; their worker may never come.
        while queue and queue[0].state != QUEUED:
            queue.popleft()
        if queue and shape.crowded and len(lanes) > 1:
            estimate_s = queue[0].fn.estimate_s
            if estimate_s > _STEAL_AFTER_S:
                lanes = self._in_time(shape, estimate_s)
        while queue:
            best: LeasedLane | None = None
            least = _INFLIGHT_MAX
            for lane in lanes:
                count = len(lane.inflight)
                if count < least and not lane.blocked and not lane.reclaim:
                    best, least = lane, count
            if best is None:
                return
            # Nothing waits at a worker behind a task that may take long: another worker may be granted meanwhile.
            is_more = least >= 2 or (least and queue[0].fn.estimate_s < 0)
            if is_more and best.load_s > self.prefetch_s and self._has_enough(best, queue):
                return
            share = (len(queue) + len(lanes) - 1) // len(lanes)
            if not self._push(best, queue, min(share, self.batch_max)):
                return
        if len(shape.lanes) > 1:
            self._steal(shape)

    def _in_time(self, shape: Shape, estimate_s: float) -> list[LeasedLane]:
        """Lanes that take more work: long tasks begin in the order of their submission, so none waits behind one that
        runs longer than others of its function.
        """
        since = _perf() - _LONG_FACTOR * estimate_s
        found = []
        for lane in shape.lanes:
            if not lane.inflight or lane.last_s >= since:
                found.append(lane)
            elif len(lane.inflight) > 1:
                lane.take_back()
        return found

    def _dispatch_spread(self, shape: Shape, spent: set[int]) -> None:
        """One task for each lease: the node finds a place for every task anew (several nodes only)."""
        queue = shape.queue
        for lane in list(shape.lanes):
            if lane.inflight:
                continue
            if lane.lease in spent:
                spent.discard(lane.lease)
                self.release(lane)
            elif queue and not lane.blocked and not lane.reclaim and self._push(lane, queue, 1):
                spent.add(lane.lease)

    def _push(self, lane: LeasedLane, queue: deque[Task], count: int) -> bool:
        fns: list[FnWire | None] | None = None
        known = lane.known
        items: list[Item] = []
        tasks: list[Task] = []
        size = 0
        load, enough = lane.load_s, self._portion_s(queue, lane)
        if lane.inflight:
            enough += load
        while queue and count:
            task = queue[0]
            if task.state != QUEUED:  # the task was cancelled in the queue
                queue.popleft()
                continue
            fn = task.fn
            number, estimate = fn.number, fn.estimate_s
            if estimate < 0:
                estimate = _UNKNOWN_S
            # A task that may not be retried, or that was lost with a worker before, gets a packet of its own.
            # A crash loses the unsent replies of the tasks that finished earlier in the same packet.
            alone = task.attempt or not (task.retries or fn.together)
            if items and (alone or load + estimate > enough):
                break
            args, extra = task.args, task.extra
            size += 96 + (len(args) if type(args) is bytes else 200)
            if extra is not None:
                size += _extra_bytes(extra)
            if items and size > self.packet_max:
                break
            if number not in lane.known:
                if fns is None:
                    fns = []
                    if len(known) >= _KNOWN_MAX:
                        fns.append(None)  # forget the older ones: a program may create functions without end
                        lane.known = set()
                described = _described(fn)
                fns.append(described)
                lane.known.add(number)
                size += len(described[2])
            queue.popleft()
            count -= 1
            task.estimate_s = estimate
            load += estimate
            if task.attempt:
                extra = dict(extra or (), **{EXTRA_ATTEMPT: task.attempt})
            tasks.append(task)
            items.append((task.id, number, args, task.submit_s, extra))
            if alone:
                break
        if not items:
            return False
        if self._send(lane, fns, items):
            inflight = lane.inflight
            if not inflight:
                lane.last_s = _perf()
            now = time.time()
            if len(items) > 1 or now - items[0][3] > _AT_ONCE_S:
                last = float(number_of(items[-1][0]))
                self.basics.ring.write(
                    events.PACKET, items[0][0], len(items), last, now, now, 0, 0, 0.0, size
                )
            if inflight or len(tasks) > 1:
                lane.shape.crowded = True  # type: ignore[union-attr]
                self.basics.reactor.start_ticking()
            lane.load_s = load
            for task in tasks:
                task.state = SENT
                task.lane = lane
                inflight[task.id] = task
            return True
        queue.extendleft(reversed(tasks))
        if fns:
            lane.known = known.difference([fn[0] for fn in fns if fn is not None])
        return False

    def _has_enough(self, lane: LeasedLane, queue: deque[Task]) -> bool:
        """Whether a worker needs no further packet now. Packets that it has not read can be taken back."""
        estimate = queue[0].fn.estimate_s
        if estimate < 0:
            return True
        enough = self._portion_s(queue, lane)
        if estimate < self.prefetch_s / 2:
            enough = max(enough, self.ahead_s)
        return lane.load_s > enough

    def _portion_s(self, queue: deque[Task], lane: LeasedLane) -> float:
        """How much work goes into the next packet: the more waits the more, for no worker may be left with the last."""
        lanes = lane.shape.lanes  # type: ignore[union-attr]
        waiting_s = queue[0].fn.estimate_s * len(queue) / (_PORTIONS * len(lanes))
        return min(max(waiting_s, self.prefetch_s), _PORTION_MAX * self.prefetch_s)

    def _send(self, lane: LeasedLane, fns: list[FnWire | None] | None, items: list[Item]) -> bool:
        try:
            return lane.send(fns, items, self.control.shm_root)
        except packets.NoRoom:
            self.basics.agenda.after(ROOM_AGAIN_S, ALWAYS, self.dispatch_all)
            return False

    # ------------------------------------------------------------------ stealing
    def _steal(self, shape: Shape) -> None:
        idle = False
        victim: LeasedLane | None = None
        most = 1
        for lane in shape.lanes:
            count = len(lane.inflight)
            if not count and not lane.blocked and not lane.reclaim:
                idle = True
            elif count > most:
                victim, most = lane, count
        if not idle or victim is None:
            return
        late = _perf() - victim.last_s >= max(_STEAL_AFTER_S, victim.load_s)
        if victim.load_s <= self.prefetch_s and not late:
            self.basics.reactor.start_ticking()  # check again soon: short tasks may turn out to be longer
            return
        if victim.take_back(late):
            self._dispatch(shape)

    def requeue(self, lane: LeasedLane | None, tasks: list[Task], late: bool = True) -> None:
        """Put tasks that were not begun back to the head of their queues, in order."""
        if tasks:
            self.basics.reactor.start_ticking()  # their worker may have no other work
        for task in reversed(tasks):
            if lane is not None:
                lane.load_s -= task.estimate_s
            task.state = QUEUED
            task.lane = None
            if task.cancelled:  # the cancel was sent to a worker that has handed the task back, or has died
                self.cancels.fail(task)
                continue
            if late and task.fn.estimate_s >= 0:
                # The estimate was wrong: spread the next tasks. The estimate of a function that never ended
                # stays unknown, and its tasks spread.
                task.fn.estimate_s = max(task.fn.estimate_s, 1e-3)
            self.look_at(task.fn.shape).queue.appendleft(task)

    # ------------------------------------------------------------------ leases
    def _update_want(self, shape: Shape) -> None:
        """Tell the node how many more leases would help."""
        crew = shape.crew
        if crew is None:
            need = self._need(shape)
        else:
            need = max(0, crew.size - len(shape.lanes)) if crew.open or shape.queue else 0
        wanted = shape.wanted
        if need == wanted:
            return
        need = min(need, _WANT_MAX)
        if need and wanted:
            if wanted < 2 * need and need < 2 * wanted:
                return  # the node's figure is close enough
            now = _perf()
            if min(need, wanted) > _WANT_MANY and now < self._tell_at:
                # Each change wakes the node, and the node may end another worker to make room: wait.
                if not self._untold:
                    self._untold = True
                    self.basics.reactor.start_ticking()
                return
            self._tell_at = now + _TELL_S
        if need and not wanted:
            self._release_idle_elsewhere(shape)
        shape.wanted = need
        self.control.want(shape, need)

    def _need(self, shape: Shape) -> int:
        """How many leases more would help: one for each task that waits for a worker."""
        need = len(shape.queue)
        for lane in shape.lanes:
            # Behind a long task even the spare packet has to wait. Behind short tasks it is next soon, unless
            # one of them is longer than the tasks before it.
            count = len(lane.inflight)
            if count > 1 and (
                lane.load_s > self.ahead_s or lane.blocked or _perf() - lane.last_s >= _STEAL_AFTER_S
            ):
                need += count - 1
        return need

    def granted(self, message: LeaseGranted) -> None:
        """The node leases us a worker."""
        _, key, lease, worker, pid, accelerators, number = message
        # A grant counts as read also if it is handed back or has to wait below: at worst the node grants one too many.
        # One that waited comes here again, after later ones; the number never goes back.
        self.control.last_grant = max(self.control.last_grant, number)
        shape = self.shapes_by_key.get(key)
        if shape is None:  # the want was withdrawn while the grant was on its way
            self.control.send(Release(message.lease, True))
            return
        lane = self.lanes.get(worker)
        if lane is None or lane.retired:
            pair = packets.pair_if_free()
            if pair is None:  # the lease waits too: it would only be asked for again
                self.actors.tell_shortage()
                self.basics.agenda.after(ROOM_AGAIN_S, ALWAYS, self.granted, message)
                return
            ours, theirs = pair
            lane = self.lanes[worker] = LeasedLane(worker, pid, ours, theirs, self.requeue)
            self.control.send(OpenLane(worker), (theirs.fileno(),))
            buffer = self.control.receive_buffer
            self.basics.reactor.add(ours.fileno(), lane.reader(buffer, self.replies.handle))
        shape.wanted = max(0, shape.wanted - 1)
        lane.lease = lease
        now = time.time()
        self.basics.ring.write(events.LEASED, worker, 0, now, now, now)
        lane.shape = shape
        lane.blocked = lane.reclaim = False
        lane.setup = {**shape.setup, "accelerators": accelerators, "lease": lease}
        lane.idle_since_s = _perf()
        self.leases[lease] = lane
        shape.lanes.append(lane)
        if shape.crew is not None and shape.crew.mustering and shape.queue:
            self._push(lane, shape.queue, 1)
        self.basics.reactor.start_ticking()

    def reclaim(self, message: ReturnLease) -> None:
        """The node needs a lease back: send nothing more there, and return the lease when the running task
        has ended.
        """
        lane = self.leases.get(message.lease)
        if lane is None:
            return
        lane.reclaim = True
        while lane.inflight and lane.take_back():
            pass
        if not lane.inflight:
            self.release(lane)

    def release(self, lane: LeasedLane) -> None:
        """Give a lease back; the lane stays for the next time."""
        if self.leases.pop(lane.lease, None) is None:
            return
        shape = lane.shape
        reusable = not lane.leaving
        if shape is not None:
            if lane in shape.lanes:
                shape.lanes.remove(lane)
            reusable = reusable and (shape.crew is None or not shape.crew.spoiled)
        self.control.send(Release(lane.lease, reusable))
        lane.lease = 0
        lane.shape = None

    def release_idle(self) -> None:
        """Give back leases without work; also look for work to steal."""
        now = _perf()
        for lane in list(self.leases.values()):
            if not lane.inflight and not lane.blocked and now - lane.idle_since_s >= self.idle_lease_s:
                if lane.shape is None or not (lane.shape.queue or held(lane)):
                    self.release(lane)
        for shape in self.shapes:
            if len(shape.lanes) > 1 and not shape.queue:
                self._steal(shape)
        if self._untold and now >= self._tell_at:
            self._untold = False
            for shape in self.shapes:
                self._update_want(shape)
        # While every worker has work and more waits, no lease is idle and nothing can be stolen.
        calm = all(lane.inflight for lane in self.leases.values()) and any(s.queue for s in self.shapes)
        self.basics.reactor.tick_every(self.idle_lease_s * (_CALM_TICKS if calm else 1))
        if not self.actors.unopened and not self._untold:
            self.basics.reactor.ticking = any(self._may_change(lane, now) for lane in self.leases.values())

    def _may_change(self, lane: LeasedLane, now: float) -> bool:
        """Whether there may be something to do for a lease though no message comes.

        A worker that has one task for a while is left alone until its reply: a program that waits for tasks of seconds
        sleeps, and a profile of it shows the wait and not the looks of a clock.
        """
        if not lane.inflight:
            return not held(lane)
        return len(lane.inflight) > 1 or now - lane.last_s < self.idle_lease_s

    def _release_idle_elsewhere(self, shape: Shape) -> None:
        for lane in list(self.leases.values()):
            if not lane.inflight and lane.shape is not shape and not lane.blocked and not held(lane):
                self.release(lane)


def held(lane: LeasedLane) -> bool:
    """Whether a lane's worker stays leased while it is idle."""
    shape = lane.shape
    return shape is not None and shape.crew is not None and shape.crew.open


def _described(fn: Fn) -> FnWire:
    code = fn.code
    assert code is not None
    return fn.number, code.hash, code.blob, fn.name, fn.returns, fn.retry_exceptions, fn.max_calls


def _extra_bytes(extra: Extra) -> int:
    total = 64
    values = extra.get("v")
    if values:
        for _, value in values:
            total += 64 + len(value[1])
    return total
