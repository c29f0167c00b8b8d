"""Actors as their callers see them: handles' scope, calls in order, restarts.

Owns one `ActorLane` per actor this process calls. Runs under the owner's lock. A link opens its lane
at once, before the actor exists: the node keeps the worker's end until there is a worker, and calls
already written to it wait in the socket.

Order: calls of this process to one actor leave in the order they were made (to one with threads or a loop: once their
arguments are here; to one with concurrency groups: in the order of their group), across restarts too: what
was in flight and may be tried again goes back to the head of the queue, in order.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Callable

from sundog.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    OutOfMemoryError,
    PendingCallsLimitExceeded,
    RayError,
    RuntimeEnvSetupError,
    TaskCancelledError,
)
from sundog.ids import RESULT_SUFFIX
from sundog.net import packets
from sundog.owner import context, death_errors, evidence
from sundog.owner.arguments import Arguments
from sundog.owner.basics import Basics
from sundog.owner.control import Control
from sundog.owner.dispatch import Dispatch
from sundog.owner.lanes import ActorLane, Lane
from sundog.owner.lost_attempts import record_lost
from sundog.owner.peers import Peers
from sundog.owner.replies import Replies
from sundog.owner.rows import ALWAYS, DONE, QUEUED, ROOM_AGAIN_S, SENT, WAITING, Fn, Task
from sundog.owner.timeouts import Timeouts
from sundog.system.descriptors import DescriptorGauge
from sundog.wire.cause import Cause
from sundog.wire.control import ActorChanged, ActorScope, OpenActorLane
from sundog.wire.lanes import EXTRA_GROUP, Item, ReplyBatch
from sundog.wire.peers import ToPeer

_time = time.time
_INFLIGHT_MAX = 4096
_perf = time.perf_counter
_BATCH = 64
_GATHER_S = 1e-3


class ActorCalls:
    """All actors that one process calls."""

    def __init__(
        self,
        basics: Basics,
        control: Control,
        peers: Peers,
        replies: Replies,
        timeouts: Timeouts,
        arguments: Arguments,
        dispatch: Dispatch,
    ) -> None:
        self.basics = basics
        self.control = control
        self.peers = peers
        self.replies = replies
        self.timeouts = timeouts
        self.arguments = arguments
        self.dispatch = dispatch
        self.links: dict[bytes, ActorLane] = {}
        self.busy: set[ActorLane] = set()
        # Actors that this process created and whose handles it counts, until the actor is dead and has no name.
        self.scopes: set[bytes] = set()
        self.gauge = DescriptorGauge(os.getpid())
        self.unopened: deque[ActorLane] = deque()  # actors without a lane: no file descriptor was free
        self.on_shortage: Callable[[str], None] = lambda text: None

    # ------------------------------------------------------------------ handles' scope
    def scope_id(self, actor_id: bytes) -> bytes:
        """The object id that stands for an actor's handles."""
        return actor_id + RESULT_SUFFIX

    def is_scope(self, oid: bytes) -> bool:
        """Whether an object id stands for the counted handles of an actor that this process created."""
        return oid in self.scopes

    def scope_ended(self, oid: bytes) -> None:
        """If the object stands for an actor that this process created, its last handle is gone: the actor
        ends after its pending calls.
        """
        if oid in self.scopes:
            self.scopes.discard(oid)
            self.control.send(ActorScope(oid[:-4]))

    # ------------------------------------------------------------------ calls
    def link(self, actor_id: bytes, name: str) -> ActorLane:
        """The link to an actor, opened on first use."""
        link = self.links.get(actor_id)
        if link is None:
            with self.basics.lock:
                link = self.links.get(actor_id)
                if link is None:
                    link = ActorLane(actor_id, name, self.busy, self.basics)
                    self.links[actor_id] = link
                    self._open_lane(link)
        return link

    def _open_lane(self, link: ActorLane) -> None:
        pair = packets.pair_if_free() if self.gauge.take(2) else None
        if pair is None:
            # Close to the limit of file descriptors: the calls wait in the queue until another actor has
            # ended.
            self.unopened.append(link)
            self.basics.reactor.start_ticking()  # each round tries again
            self.tell_shortage()
            return
        ours, theirs = link.sock, link.peer = pair
        # When the worker's end of the lane is closed, the worker is gone. The node says why.
        reactor, fd = self.basics.reactor, ours.fileno()
        reactor.add(fd, link.reader(self.control.receive_buffer, self._heard, lambda: reactor.remove(fd)))
        self.control.send(OpenActorLane(link.actor_id, link.incarnation), (theirs.fileno(),))

    def tell_shortage(self) -> None:
        """Say that no descriptor is free for a lane or a channel, which waits until one is (locked)."""
        self.gauge.used_up()
        self.on_shortage(self.gauge.text("This program"))

    def _open_waiting(self) -> None:
        for _ in range(len(self.unopened)):
            link = self.unopened.popleft()
            if link.state == "DEAD" or link.sock is not None:
                continue
            self._open_lane(link)
            if link.sock is None:
                return  # no descriptor is free yet; the lane waits at the end of the queue
            self.busy.add(link)

    def worker_known(self, link: Lane, worker: bytes, pid: int) -> None:
        """The node or the worker itself has reported which process runs the actor."""
        link.worker, link.pid = worker, pid
        untold, link.untold = link.untold, []
        for message in untold:
            self.peers.send(worker, message)

    def tell(self, lane: Lane, message: ToPeer) -> None:
        """Send a message to the worker behind a lane, now or as soon as its process is known (locked)."""
        if lane.worker:
            self.peers.send(lane.worker, message)
        else:
            lane.untold.append(message)

    def _heard(self, link: ActorLane, batch: ReplyBatch) -> None:
        before = len(link.inflight)
        self.replies.handle(link, batch)
        if link.away and link.state == "RESTARTING" and len(link.inflight) < before:
            # The next incarnation has answered before the node's message about it arrived.
            link.state, link.away = "ALIVE", False
        if link.queue:
            self.busy.add(link)
        elif not link.inflight:
            link.keep = None

    def call(self, link: ActorLane, fn: Fn, args: tuple[object, ...], kwargs: dict[str, object]) -> Task:
        """Queue a call and send it if it can be.

        Raises:
            PendingCallsLimitExceeded: the actor's max_pending_calls are waiting already.
        """
        basics = self.basics
        if link.max_pending > 0 and len(link.queue) + len(link.inflight) >= link.max_pending:
            raise PendingCallsLimitExceeded(
                f"Actor {link.name} ({link.actor_id.hex()}) has {link.max_pending} calls pending from this process, "
                "the most its max_pending_calls allows. Wait for some of them, or raise the limit.",
                actor_id=link.actor_id.hex(),
                max_pending_calls=link.max_pending,
            )
        task_id = basics.ids.task()
        task = Task(task_id, fn, None, _time())
        if basics.notes_parents:
            task.parent = context.current_id()
        task.actor = link
        if args or kwargs:
            self.arguments.pack(task, args, kwargs)
        basics.table[task_id] = task
        if task.state == WAITING or link.away:
            self._call_slowly(link, task)
            return task
        link.queue.append(task)
        if not link.inflight or len(link.queue) >= _BATCH:
            with basics.lock:
                basics.check_open()
                if not basics.reactor.leader:
                    basics.reactor.glance()
                self.send_calls(link)
        elif link.concurrent and not self.busy:
            # The call need not wait for a reply. The reading thread sends it, together with the calls made
            # until then.
            self.busy.add(link)
            basics.reactor.wake_soon()
        else:
            self.busy.add(link)
        return task

    def _call_slowly(self, link: ActorLane, task: Task) -> None:
        with self.basics.lock:
            self.basics.check_open()
            if link.state == "DEAD":
                task.state = QUEUED
                self.replies.fail_with(task, self.died_error(link, task))
                return
            if link.state == "RESTARTING" and task.state != WAITING and task.retries == 0:
                # The call fails now: a restart may take long, and the caller may choose another actor.
                self.replies.fail_with(task, self._unavailable(link, task, link.cause, begun=False))
                return
            link.queue.append(task)
            self.arguments.await_all(task)
            self.send_calls(link)

    def ready_to_send(self, task: Task) -> None:
        """The arguments of a queued call are here."""
        assert task.actor is not None
        self.busy.add(task.actor)

    def dispatch_all(self) -> None:
        """Send what waits for actors."""
        if self.unopened:
            self._open_waiting()
        if self.busy:
            links = list(self.busy)
            self.busy.clear()
            for link in links:
                if len(link.inflight) > _BATCH > len(link.queue) and self._more_may_come(link):
                    self.busy.add(link)
                else:
                    self.send_calls(link)

    def _more_may_come(self, link: ActorLane) -> bool:
        """Whether a few calls should wait for others to go with them: their actor has enough to do.

        Only while nobody waits for results, so that this program may be making calls. An actor that runs one
        call at a time replies to those it has, and each reply leads here again; one that runs several may
        need just these calls before it replies, so they wait for a moment at most.
        """
        reactor = self.basics.reactor
        if reactor.leader:
            return False
        if link.concurrent:
            now = _perf()
            if link.due_s == 0.0:
                link.due_s = now + _GATHER_S
            elif now >= link.due_s:
                link.due_s = 0.0
                return False
            reactor.wake_soon()
        return True

    def send_calls(self, link: ActorLane) -> None:
        """Locked: send queued calls in order, as many as the socket takes."""
        queue, inflight = link.queue, link.inflight
        while queue and link.sock is not None and len(inflight) < _INFLIGHT_MAX:
            items: list[Item] = []
            tasks: list[Task] = []
            size = 0
            skipped: list[Task] = []
            held_up: set[str] | None = None  # concurrency groups with a call that waits for its arguments
            while queue and len(items) < _BATCH:
                task = queue[0]
                if (
                    task.state == QUEUED
                    and task.args is None
                    and task.extra is None
                    and not task.attempt
                    and held_up is None
                ):
                    # The common case, written out: a call without refs in its arguments.
                    queue.popleft()
                    items.append((task.id, task.fn.number, None, task.submit_s, None))
                    tasks.append(task)
                    continue
                if task.state == DONE:
                    queue.popleft()
                    continue
                if task.state == WAITING:
                    if not link.out_of_order:
                        if not link.by_group:
                            break
                        held_up = (held_up or set()) | {_group_of(task)}
                    skipped.append(queue.popleft())
                    continue
                if held_up is not None and _group_of(task) in held_up:
                    skipped.append(queue.popleft())
                    continue
                args, extra = task.args, task.extra
                size += 160 + (len(args) if type(args) is bytes else 200) + (1024 if extra else 0)
                if extra and "v" in extra:
                    size += sum(len(value[1]) for _, value in extra["v"])
                if items and size > self.dispatch.packet_max:
                    break
                queue.popleft()
                if task.attempt:
                    extra = dict(extra or (), a=task.attempt)
                items.append((task.id, task.fn.number, args, task.submit_s, extra))
                tasks.append(task)
            queue.extendleft(reversed(skipped))
            if not items:
                return
            if not self._send(link, items):
                queue.extendleft(reversed(tasks))
                return
            for task in tasks:
                task.state = SENT
                task.lane = link
                inflight[task.id] = task
        if queue and link.state == "DEAD":
            self._fail_queued(link)  # calls made while the message about the death was being read

    def settle(self, link: ActorLane) -> None:
        """Locked: a call ended without a reply. It may have blocked other calls, or the end of the actor."""
        if link.queue:
            self.send_calls(link)  # a call that waited for its arguments is in front of calls made later
        if not link.queue and not link.inflight:
            link.keep = None

    def _send(self, link: ActorLane, items: list[Item]) -> bool:
        try:
            sent = link.send(None, items, self.control.shm_root)
        except packets.NoRoom:
            self.basics.agenda.after(ROOM_AGAIN_S, ALWAYS, self.send_calls, link)
            return False
        if not sent and link.inflight:
            self.busy.add(link)
        return sent

    # ------------------------------------------------------------------ what the node publishes
    def published(self, message: ActorChanged) -> None:
        """An actor of interest changed its state."""
        _, actor_id, state, worker, incarnation, cause, pid = message
        link = self.links.get(actor_id)
        if link is None:
            return
        if state == "ALIVE":
            link.state, link.incarnation, link.away = state, incarnation, False
            link.close_peer()
            self.worker_known(link, worker or b"", pid)
            self.busy.add(link)
            return
        if state == "RESTARTING":
            if incarnation <= link.incarnation:
                return  # the death was handled already
            was_alive = link.state == "ALIVE"
            link.state, link.cause, link.away = state, cause, True
            link.pid = link.pid or pid  # it may have died before its worker was known here
            lost = self._leave(link)
            link.incarnation = incarnation
            if was_alive:
                lost += link.take_unsent()
            self._sort_out(link, lost, cause, was_alive)
            link.worker, link.untold = b"", []
            self._open_lane(link)
            self.settle(link)
        elif state == "DEAD":
            link.state, link.cause, link.away = state, cause, True
            lost = self._leave(link)
            begun = self._begun(link, lost)
            if link.worker:
                record_lost(
                    self.basics, self.control, [task for task in lost if task.id in begun], link.worker
                )
            for task in lost:
                self._fail(link, task, may_have_run=task.id in begun)
            self._fail_queued(link)
            link.keep = None
            # A method bound to this lane keeps the lane. Any other handle learns of the death from the node.
            del self.links[actor_id]

    def _fail_queued(self, link: ActorLane) -> None:
        # Empty the queue first: each failing call looks at the queue, and another thread may add calls to it.
        queued = [link.queue.popleft() for _ in range(len(link.queue))]
        for task in queued:
            self._fail(link, task)

    def _begun(self, link: ActorLane, lost: list[Task]) -> set[bytes]:
        """Which of its calls a dead worker may have begun."""
        if not link.worker:
            return set()  # the worker never sent its id: it had not read a call from its socket
        return evidence.begun_calls(
            self.control.ring_path(link.worker),
            [task.id for task in lost],
            certain=self.basics.config.record_enabled and not link.concurrent,
        )

    def _leave(self, link: ActorLane) -> list[Task]:
        """Close the lane to a worker that is gone; returns the calls in flight, in order."""
        link.close_peer()
        if link.sock is not None:
            self.replies.drain_lane(link)
            self.basics.reactor.remove(link.sock.fileno())
            link.sock.close()
            link.sock = None
        for name, _ in link.freed:
            self.basics.segments.unlink(name)
        link.freed = []
        lost = list(link.inflight.values())
        link.inflight.clear()
        return lost

    def _sort_out(self, link: ActorLane, lost: list[Task], cause: object, was_alive: bool) -> None:
        """The calls made to an actor that restarts: try again what may be, fail the rest, keep the order.

        Calls without retries fail with the life that they were made to, begun or not: the next life starts from
        nothing, and their caller may count on what earlier calls have done. An actor that died in its first
        constructor had not taken any.
        """
        begun = self._begun(link, lost)
        record_lost(self.basics, self.control, [task for task in lost if task.id in begun], link.worker)
        again, over = [], []
        for task in lost:
            if task.state == DONE:
                continue
            if task.cancelled:
                over.append(task)
            elif task.id not in begun and (task.retries != 0 or not was_alive):
                again.append(task)
            elif task.retries != 0:
                if task.retries > 0:
                    task.retries -= 1
                self.replies.begin_attempt(task)
                self.timeouts.watch(task)
                again.append(task)
            else:
                over.append(task)
        link.requeue(again)
        # Now, and not earlier: the last failing call releases the actor, unless other calls are retried.
        for task in over:
            if task.cancelled:
                self._fail(link, task)
            else:
                self.replies.fail_with(task, self._unavailable(link, task, cause, task.id in begun))

    def _fail(self, link: ActorLane, task: Task, may_have_run: bool = False) -> None:
        if task.cancelled:
            error: Exception = TaskCancelledError(
                f"Call {task.fn.name} ({task.id.hex()}) was cancelled.", task_id=task.id.hex()
            )
        else:
            error = self.died_error(link, task, may_have_run)
        self.replies.fail_with(task, error)

    def _unavailable(self, link: ActorLane, task: Task, cause: object, begun: bool) -> RayError:
        return death_errors.call_error(
            task, link.name, link.actor_id, link.pid, cause, _text(cause), begun=begun
        )

    def _output_of(self, link: ActorLane) -> str:
        if not link.worker:
            return f"See: sundog why {link.actor_id.hex()}"
        output = self.control.log_path(link.worker)
        return f"Why: sundog why {link.actor_id.hex()}. Its output: {output}"

    def died_error(self, link: ActorLane, task: Task | None = None, may_have_run: bool = False) -> RayError:
        """The error for calls to an actor that is dead and will not restart, or that could never be placed."""
        if isinstance(link.cause, bytes):
            refused = pickle.loads(link.cause)
            if isinstance(refused, (ActorUnschedulableError, RuntimeEnvSetupError)):
                return refused
        what = f"{task.fn.name}() was not completed. " if task is not None else ""
        cause = link.cause
        facts: dict[str, object] = {
            "actor_id": link.actor_id.hex(),
            "actor_name": link.name,
            "pid": link.pid or None,
            "may_have_run": may_have_run,
        }
        if isinstance(cause, Cause):
            facts = death_errors.facts_of(cause) | facts
        elif isinstance(cause, bytes):
            facts |= {"cause": pickle.loads(cause), "actor_init_failed": True}
        kind = OutOfMemoryError if death_errors.is_memory(cause) else ActorDiedError
        told = death_errors.closed(_text(cause))
        return kind(
            f"Actor {link.name} ({link.actor_id.hex()}) is dead: {told}{what}{self._output_of(link)}", **facts
        )


def _group_of(task: Task) -> str:
    """The concurrency group of a call; "" is the default one."""
    return str(task.extra.get(EXTRA_GROUP, "")) if task.extra else ""


def _text(cause: object) -> str:
    if isinstance(cause, Cause):
        return cause.text()
    if isinstance(cause, bytes):
        return f"its constructor raised:\n{pickle.loads(cause)}"
    return str(cause or "it ended.")
