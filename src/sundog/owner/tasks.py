"""Submitting tasks: functions, arguments, dependencies.

Owns the functions this owner has exported and the shapes of demand. The submitting thread does the
pickling without the lock, appends the task to its shape's queue, and takes the lock only to send a
full batch or to use an idle worker.
"""

from __future__ import annotations

import itertools
import time

# hashlib would load OpenSSL first, which takes longer than everything else in this module.
from _blake2 import blake2b

# As above: this is what `weakref` offers under the same name.
from _weakref import ref
from typing import TYPE_CHECKING, Any

from sundog.ids import RESULT_SUFFIX, result_id
from sundog.owner import by_value, context
from sundog.owner.arguments import Arguments
from sundog.owner.basics import Basics
from sundog.owner.dispatch import Dispatch
from sundog.owner.rows import WAITING, Code, Fn, Task
from sundog.owner.streams import Streams
from sundog.owner.timeouts import Timeouts
from sundog.refs import ObjectRef
from sundog.serialize.pack import pack_function

if TYPE_CHECKING:
    from collections.abc import Callable

__tracebackhide__ = True  # pytest folds the frames of this file

_time = time.time
_REF = ObjectRef
_NUMBERS_MAX = 1000
_LARGE_FUNCTION_BYTES = 1 << 18  # from this size on, the values that a function captures are recorded


FUNCTION_MAX_BYTES = (
    100_000_000  # as in Ray: a larger function captured a value by mistake, which belongs in the object store
)


def _check_size(function: object, name: str, size_bytes: int) -> None:
    if size_bytes < FUNCTION_MAX_BYTES:
        return
    kind = "actor" if isinstance(function, type) else "remote function"
    raise ValueError(
        f"The {kind} {name} is too large: {size_bytes / (1 << 20):.0f} MiB pickled, of at most "
        f"{FUNCTION_MAX_BYTES / (1 << 20):.0f} MiB. It captures a large object: put() that object, and pass the ref."
    )


class Tasks:
    """Functions and normal tasks of one owner, on their way into the queues of `dispatch`."""

    def __init__(
        self, basics: Basics, dispatch: Dispatch, arguments: Arguments, streams: Streams, timeouts: Timeouts
    ) -> None:
        self.basics = basics
        self.dispatch = dispatch
        self.arguments = arguments
        self.streams = streams
        self.timeouts = timeouts
        self.dispatch = dispatch
        self.arguments = arguments
        self.batch_max = dispatch.batch_max
        # Hears of each function and class that is about to be shipped (`engines/needs.py`).
        self.announce: Callable[[object], None] | None = None
        self._numbers = itertools.count(1)
        self._codes: dict[int, Code] = {}  # id(function) -> its code, until the function is deleted

    # ------------------------------------------------------------------ functions and shapes
    def make_fn(self, function: object, name: str) -> Fn:
        """Export a function or class (pickled once per definition).

        Raises:
            TypeError: it cannot be pickled; the message names what it captured.
            OufOfBandObjectRefSerializationException: it captured a ref, and the settings do not allow that.
        """
        code = self._codes.get(id(function))
        if code is None:
            started = _time()
            try:
                blob, captured = pack_function(function)
            except Exception as error:
                from sundog.serialize.inspect import explain

                raise TypeError(
                    explain(function, error, what=f"the remote function or class {name}")
                ) from error
            if captured:
                # Refs in a closure are kept for ever, and so is the definition: it may be sent again at any
                # time, and copies of the refs in a worker are not counted.
                self.basics.objects.check_uncounted(
                    captured[0], f"is captured by the remote function or class {name}"
                )
                with self.basics.lock:
                    self.basics.objects.drain()
                    for oid in captured:
                        self.basics.refs.hold(oid)
            if self.announce is not None:
                self.announce(function)
            by_value.note_function(name, len(blob))
            if len(blob) >= _LARGE_FUNCTION_BYTES:
                took = _time() - started
                self.basics.ring.note("function", name=name, bytes=len(blob), seconds=took, at_s=started)
            _check_size(function, name, len(blob))
            code = Code(blake2b(blob, digest_size=16).digest(), blob)
            code.function = function if captured else self._while_it_lives(function)
            self._codes[id(function)] = code
        fn = Fn(0, name)
        fn.code = code
        return fn

    def _while_it_lives(self, function: object) -> object:
        """A weak ref that makes the owner forget a function's code when the function dies; the function
        itself if it cannot be weakly referenced.
        """
        codes, key = self._codes, id(function)

        def _function_died(_: object) -> None:
            codes.pop(key, None)  # may run at any moment on any thread: one atomic step

        try:
            return ref(function, _function_died)
        except TypeError:
            return function

    def number(self, fn: Fn) -> None:
        """Give a function with its options a number: the same for variants that workers need not tell apart."""
        assert fn.code is not None
        numbers = fn.code.numbers
        told = (fn.name, fn.returns, fn.retry_exceptions, fn.max_calls)
        if told not in numbers:
            if len(numbers) >= _NUMBERS_MAX:
                numbers.clear()
            numbers[told] = next(self._numbers)
        fn.number = numbers[told]

    # ------------------------------------------------------------------ submit
    def submit(self, fn: Fn, args: tuple[object, ...], kwargs: dict[str, object]) -> Task:
        """Queue a task and return its row; the caller makes the refs."""
        basics = self.basics
        task_id = basics.ids.task()
        task = Task(task_id, fn, None, _time())
        if basics.notes_parents:
            task.parent = context.current_id()
        if args or kwargs:
            self.arguments.pack(task, args, kwargs)
            if task.state == WAITING:
                basics.table[task_id] = task
                with basics.lock:
                    self.arguments.await_all(task)
                    self.dispatch.kick()
                return task
        basics.table[task_id] = task
        shape: Any = fn.shape
        queue, lanes = shape.queue, shape.lanes
        queue.append(task)
        if lanes:
            for lane in lanes:
                if not lane.inflight and not lane.blocked:  # the worker is idle
                    self.dispatch.send_now(shape)
                    return task
        elif not shape.wanted:
            self.dispatch.send_now(shape)
            return task
        if not len(queue) % self.batch_max:
            self.dispatch.kick()
        return task

    def refs_of(self, task: Task, code: object, at: int) -> object:
        """The refs that `.remote()`, called at this place, returns for a task."""
        if task.fn.queue_timeout_s is not None:
            self.timeouts.watch(task)
        returns = task.fn.returns
        if returns == 1 and type(returns) is int:
            return ObjectRef(task.id + RESULT_SUFFIX, code, at)
        if type(returns) is int:
            if returns == 0:
                return None
            return [ObjectRef(result_id(task.id, index), code, at) for index in range(1, returns + 1)]
        if returns == "dynamic":
            return ObjectRef(task.id + RESULT_SUFFIX, code, at)
        from sundog.owner.generators import open_generator  # only programs with streaming tasks load this

        return open_generator(self.streams, task, code, at)
