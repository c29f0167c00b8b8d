"""Arguments of tasks, calls and constructors: pickled when they are submitted, awaited until they are here.

Owns how arguments are packed, for all three, and the wait for the values of top-level refs. The submitting thread packs
without the lock (but to count refs); the rest runs under it.
"""

from __future__ import annotations

import time
from pickle import dumps
from typing import TYPE_CHECKING

from sundog import event_facts, events
from sundog.ids import PROCESS_BYTES, number_of
from sundog.owner import by_value
from sundog.owner.basics import Basics
from sundog.owner.call_sites import of_user
from sundog.owner.replies import Replies
from sundog.owner.rows import DONE, QUEUED, WAITING, Task
from sundog.refs import ObjectRef
from sundog.serialize.pack import SIMPLE, SLOTS_ALONE, Slot
from sundog.wire.lanes import ERROR, EXTRA_VALUES

if TYPE_CHECKING:
    from sundog.owner.interfaces import Calling, Dispatching

__tracebackhide__ = True  # pytest folds the frames of this file

_time = time.time
_REF = ObjectRef
_WAITED_S = 1e-4  # a shorter wait for arguments is not recorded


class Arguments:
    """Packs and awaits the arguments of one owner's tasks."""

    dispatch: Dispatching  # set by the owner, which builds it later
    actors: Calling

    def __init__(self, basics: Basics, replies: Replies) -> None:
        self.basics = basics
        self.replies = replies

    def pack(self, task: Task, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Pickle the arguments of a task; afterwards it is WAITING if it has top-level refs."""
        if not kwargs:
            for arg in args:
                if type(arg) not in SIMPLE:
                    break
            else:
                blob = dumps(args, 5)
                if len(blob) <= self.basics.inline_max:
                    task.args = blob  # the common case: plain and small
                    return
        self._pack_carefully(task, args, kwargs)

    def _pack_carefully(self, task: Task, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Pickle arguments that need care: top-level refs become slots, large ones an object of their own."""
        basics = self.basics
        deps: list[bytes] = []
        if any(type(arg) is _REF for arg in args):
            args = tuple([_slot(arg, deps) if type(arg) is _REF else arg for arg in args])
        if kwargs and any(type(arg) is _REF for arg in kwargs.values()):
            kwargs = {key: _slot(arg, deps) if type(arg) is _REF else arg for key, arg in kwargs.items()}
        started = _time()
        if deps and not kwargs and len(deps) == len(args) < len(SLOTS_ALONE):
            meta, buffers, inner = SLOTS_ALONE[len(deps)], None, None
        else:
            payload: object = [args, kwargs] if kwargs else args
            meta, buffers, inner = basics.objects.pack_value(payload, f"an argument of {task.fn.name}()")
        holds = deps + inner if inner else list(deps)
        if buffers:
            oid = basics.ids.put()
            location = basics.segments.write(buffers)
            site, now = of_user(basics.ring, 0), _time()
            event_facts.made(basics.ring, events.ARGUMENTS, oid[:16], site, location, started, now)
            by_value.note_arguments(task.fn.name, args, kwargs, location[1])
            alike = by_value.likeness(args, kwargs)
            basics.ring.write(
                events.PUT, task.id, site, alike, started, now, events.ARGUMENT, 0, 0.0, location[1]
            )
            basics.ready[oid] = (0, meta, location, None, None)
            task.args = ("obj", oid, meta, location)
        else:
            task.args = meta
        if holds:
            with basics.lock:
                basics.objects.drain()
                for held in holds:
                    basics.refs.hold(held)
        if buffers:
            holds.append(oid)  # the creator's hold ends with the task
        task.holds = holds or None
        if deps:
            task.deps = deps
            task.state = WAITING

    def await_all(self, task: Task) -> None:
        """Locked: queue the task once the values of its top-level refs are here."""
        basics = self.basics
        missing = 0
        for oid in set(task.deps or ()):
            if oid not in basics.ready:
                if task.saved is not None and oid in task.saved:
                    continue  # the task runs again, with the small values of its first run
                basics.objects.ask_for(oid)
                if oid not in basics.ready:
                    missing += 1
                    basics.dependents.setdefault(oid, []).append(task)
        task.missing = missing
        if not missing:
            self.enqueue(task)

    def enqueue(self, task: Task) -> None:
        """Locked: all values are here; put the task into its queue, or fail it with a failed argument."""
        if task.state == DONE:
            return
        values = []
        for oid in task.deps or ():
            value = self.basics.objects.value(oid)
            if value is None and task.saved is not None:
                value = task.saved.get(oid)
            if value is None:
                # The object was lost again after it had become ready: wait for it once more.
                self.await_all(task)
                return
            if value[0] == ERROR:
                self.basics.unread.oids.discard(oid)
                if task.waiter is not None:
                    task.waiter.fail(task, value[1])
                else:
                    self.replies.fail_by_argument(task, oid, value)
                return
            values.append((oid, value[:4]))
        if values:
            task.extra = dict(task.extra or (), **{EXTRA_VALUES: values})
        task.state = QUEUED
        now = _time()
        if now - task.submit_s > _WAITED_S:
            own = task.id[:PROCESS_BYTES]
            for oid in (task.deps or ())[: event_facts.DEPS_RECORDED]:
                maker = float(number_of(oid[:16])) if oid[:PROCESS_BYTES] == own else 0.0
                self.basics.ring.write(events.READY, task.id, 0, maker, now, now)
        if task.waiter is not None:
            task.waiter.start(task)
        elif task.actor is not None:
            self.actors.ready_to_send(task)
        else:
            shape = task.fn.shape
            if values and self.basics.segments.several:
                from sundog.owner import locality  # only sessions of several nodes need it

                shape = locality.near(self.basics.segments, self.dispatch, task, values)
            self.dispatch.look_at(shape).queue.append(task)


def _slot(ref: ObjectRef[object], deps: list[bytes]) -> Slot:
    oid = ref.binary()
    deps.append(oid)
    return Slot(len(deps) - 1)
