"""Submitting tasks: functions, arguments, dependencies.

Owns the functions this owner has exported and the shapes of demand. The submitting thread does the
pickling without the lock, appends the task to its shape's queue, and takes the lock only to send a
full batch or to use an idle worker.
"""

from __future__ import annotations

import itertools
import time

# hashlib would load OpenSSL first, which takes longer than the rest of this module.
from _blake2 import blake2b

# As above: this is what `weakref` offers under the same name.
from _weakref import ref
from pickle import dumps
from typing import TYPE_CHECKING, Any

from sundog import events
from sundog.ids import RESULT_SUFFIX, result_id
from sundog.owner import by_value, context
from sundog.owner.dispatch import Dispatch
from sundog.owner.records import DONE, QUEUED, WAITING, Code, Fn, Shape, Task
from sundog.refs import ObjectRef
from sundog.serialize.pack import SIMPLE, Slot, pack_function
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.lanes import ERROR, EXTRA_VALUES

if TYPE_CHECKING:
    from sundog.owner.core import Owner

_time = time.time
_REF = ObjectRef
_SHAPES_MIN = 64
_WAITED_S = 1e-4  # arguments that were there sooner are not worth an event
_NUMBERS_MAX = 1000


FUNCTION_MAX_BYTES = (
    100_000_000  # as in Ray: what is larger was captured by mistake, and belongs in the store
)


def _check_size(function: Any, name: str, size_bytes: int) -> None:
    if size_bytes < FUNCTION_MAX_BYTES:
        return
    kind = "actor" if isinstance(function, type) else "remote function"
    raise ValueError(
        f"The {kind} {name} is too large: {size_bytes / (1 << 20):.0f} MiB pickled, of at most "
        f"{FUNCTION_MAX_BYTES / (1 << 20):.0f} MiB. It captures a large object: put() that, and pass the ref."
    )


class Tasks(Dispatch):
    """Normal tasks of one owner."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner)
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._sweep_at = _SHAPES_MIN
        self._codes: dict[int, Code] = {}  # id(function) -> its code; until the function dies

    # ------------------------------------------------------------------ functions and shapes
    def make_fn(self, function: Any, name: str) -> Fn:
        """Export a function or class (pickled once per definition).

        Raises:
            TypeError: it cannot be pickled; the message names what it captured.
            OufOfBandObjectRefSerializationException: it captured a ref, and the settings do not allow that.
        """
        code = self._codes.get(id(function))
        if code is None:
            try:
                blob, captured = pack_function(function)
            except Exception as error:
                from sundog.serialize.inspect import explain

                raise TypeError(
                    explain(function, error, what=f"the remote function or class {name}")
                ) from error
            if captured:
                # Refs in a closure live for good, and so does the definition: it may be sent again at any time,
                # and what it left in a worker is not counted there.
                self.owner.check_uncounted(captured[0], f"is captured by the remote function or class {name}")
                with self.owner.lock:
                    self.owner.drain()
                    for oid in captured:
                        self.owner.refs.hold(oid)
            by_value.note_function(name, len(blob))
            _check_size(function, name, len(blob))
            code = Code(blake2b(blob, digest_size=16).digest(), blob)
            code.function = function if captured else self._while_it_lives(function)
            self._codes[id(function)] = code
        fn = Fn(0, name)
        fn.code = code
        return fn

    def _while_it_lives(self, function: Any) -> Any:
        """What has a function's code forgotten when the function dies; the function itself if that cannot be told."""
        codes, key = self._codes, id(function)

        def _function_died(_: object) -> None:
            codes.pop(key, None)  # at any moment, on any thread: one step

        try:
            return ref(function, _function_died)
        except TypeError:
            return function

    def number(self, fn: Fn) -> None:
        """Give a function with all its options its number: the same for what workers cannot tell apart."""
        assert fn.code is not None
        numbers = fn.code.numbers
        told = (fn.name, fn.returns, fn.retry_exceptions, fn.max_calls)
        if told not in numbers:
            if len(numbers) >= _NUMBERS_MAX:
                numbers.clear()
            numbers[told] = next(self._numbers)
        fn.number = numbers[told]

    def shape_for(self, spec: LeaseSpec, setup: dict[str, Any]) -> Shape:
        """The shape of this demand, made on first use."""
        with self.owner.lock:
            key = (spec, bool(setup.get("capture")))
            shape = self.shapes_by_spec.get(key)
            if shape is None:
                if len(self.shapes) >= self._sweep_at:
                    self._sweep_shapes()
                shape = self.shapes_by_spec[key] = self.look_at(Shape(next(self._keys), spec, setup))
            return shape

    def private_shape(self, spec: LeaseSpec, setup: dict[str, Any]) -> Shape:
        """A shape of one user's own: equal demands of others do not share its queue and its workers."""
        with self.owner.lock:
            return Shape(next(self._keys), spec, setup)

    def _sweep_shapes(self) -> None:
        """Forget shapes without work: placement groups come and go. A function that is still bound to one brings it
        back with its next task."""
        self.shapes = [shape for shape in self.shapes if shape.queue or shape.lanes or shape.wanted]
        self.shapes_by_key = {shape.key: shape for shape in self.shapes}
        by_spec = self.shapes_by_spec
        self.shapes_by_spec = {
            spec: shape for spec, shape in by_spec.items() if shape.key in self.shapes_by_key
        }
        self._sweep_at = max(_SHAPES_MIN, 2 * len(self.shapes))

    # ------------------------------------------------------------------ submit
    def submit(self, fn: Fn, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Task:
        """Queue a task and return its row; the caller makes the refs."""
        owner = self.owner
        task = Task(owner.ids.task(), fn, None, _time())
        if owner.concurrent:
            task.parent = context.current_id()
        if args or kwargs:
            if kwargs:
                self.pack_args(task, args, kwargs)
            else:
                for arg in args:
                    if type(arg) not in SIMPLE:
                        self.pack_args(task, args, kwargs)
                        break
                else:
                    blob = dumps(args, 5)
                    if len(blob) > owner.inline_max:
                        self.pack_args(task, args, kwargs)
                    else:
                        task.args = blob
        owner.table[task.id] = task
        if task.state == WAITING:
            with owner.lock:
                self.await_deps(task)
                self.kick()
            return task
        shape: Any = fn.shape
        queue = shape.queue
        queue.append(task)
        for lane in shape.lanes:
            if not lane.inflight and not lane.blocked:  # it has nothing to do
                self.send_now(shape)
                return task
        if not shape.lanes and not shape.wanted:
            self.send_now(shape)
        elif len(queue) % self.batch_max == 0:
            self.kick()
        return task

    def refs_of(self, task: Task, code: Any, at: int) -> Any:
        """The refs that `.remote()`, called at this place, returns for a task."""
        if task.fn.queue_timeout_s is not None:
            self.owner.timeouts.watch(task)
        returns = task.fn.returns
        if returns == 1 and type(returns) is int:
            return ObjectRef(task.id + RESULT_SUFFIX, code, at)
        if type(returns) is int:
            if returns == 0:
                return None
            return [ObjectRef(result_id(task.id, index), code, at) for index in range(1, returns + 1)]
        if returns == "dynamic":
            return ObjectRef(task.id + RESULT_SUFFIX, code, at)
        return self.owner.streams.open(task, code, at)

    # ------------------------------------------------------------------ arguments
    def pack_args(self, task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Pickle arguments that need care: top-level refs become slots, large ones an object of their own."""
        owner = self.owner
        deps: list[bytes] = []
        if any(type(arg) is _REF for arg in args):
            args = tuple([_slot(arg, deps) if type(arg) is _REF else arg for arg in args])
        if kwargs and any(type(arg) is _REF for arg in kwargs.values()):
            kwargs = {key: _slot(arg, deps) if type(arg) is _REF else arg for key, arg in kwargs.items()}
        payload: Any = [args, kwargs] if kwargs else args
        meta, buffers, inner = owner.pack_value(payload, f"an argument of {task.fn.name}()")
        holds = deps + inner if inner else list(deps)
        if buffers:
            oid = owner.ids.put()
            location = owner.segments.write(buffers)
            by_value.note_arguments(task.fn.name, args, kwargs, location[1])
            owner.ready[oid] = (0, meta, location, None, None)
            task.args = ("obj", oid, meta, location)
        else:
            task.args = meta
        if holds:
            with owner.lock:
                owner.drain()
                for held in holds:
                    owner.refs.hold(held)
        if buffers:
            holds.append(oid)  # its maker's hold ends with the task
        task.holds = holds or None
        if deps:
            task.deps = deps
            task.state = WAITING

    def await_deps(self, task: Task) -> None:
        """Locked: queue the task once the values of its top-level refs are here."""
        owner = self.owner
        missing = 0
        for oid in set(task.deps or ()):
            if oid not in owner.ready:
                if task.saved is not None and oid in task.saved:
                    continue  # it runs again, with the small values of its first run
                owner.ask_for(oid)
                if oid not in owner.ready:
                    missing += 1
                    owner.dependents.setdefault(oid, []).append(task)
        task.missing = missing
        if not missing:
            self.enqueue(task)

    def enqueue(self, task: Task) -> None:
        """Locked: all values are here; put the task into its queue, or fail it with a failed argument."""
        if task.state == DONE:
            return
        values = []
        for oid in task.deps or ():
            value: Any = self.owner.value(oid)
            if value is None and task.saved is not None:
                value = task.saved.get(oid)
            if value is None:
                # Lost again between becoming ready and now: wait for it once more.
                self.await_deps(task)
                return
            if value[0] == ERROR:
                self.owner.unread.oids.discard(oid)
                if task.waiter is not None:
                    task.waiter.fail(task, value[1])
                else:
                    self.owner.replies.fail_by_argument(task, oid, value)
                return
            values.append((oid, value[:4]))
        if values:
            task.extra = dict(task.extra or (), **{EXTRA_VALUES: values})
        task.state = QUEUED
        now = _time()
        if now - task.submit_s > _WAITED_S:
            self.owner.ring.write(events.READY, task.id, 0, task.submit_s, now, now)
        if task.waiter is not None:
            task.waiter.start(task)
        elif task.actor is not None:
            self.owner.actors.ready_to_send(task)
        else:
            self.look_at(task.fn.shape).queue.append(task)


def _slot(ref: ObjectRef[Any], deps: list[bytes]) -> Slot:
    oid = ref.binary()
    deps.append(oid)
    return Slot(len(deps) - 1)
