"""Running one task: arguments out of bytes, the user's function, results into bytes.

Owns the functions this process has loaded. Knows nothing of scheduling:
`serving.py` decides what runs next, `threaded_actor.py` and `async_actor.py` run several at a time.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from struct import error as _PackError
from types import FrameType, GeneratorType, MethodType
from typing import Any

from sundog import event_facts, events
from sundog.events import EVENT, EVENT_BYTES, HEADER_BYTES, NoRing, Ring
from sundog.exceptions import ObjectLostError, RayTaskError, TaskCancelledError
from sundog.owner import context, interrupts
from sundog.owner.core import Owner
from sundog.owner.failures import note_error
from sundog.owner.objects import CopyLost
from sundog.refs import collectors
from sundog.serialize.fingerprint import fingerprint
from sundog.serialize.pack import NONE, SIMPLE, SLOTS_ALONE, Buffers, Packed, Slot, pack, unpack
from sundog.store.segments import Location
from sundog.titles import Title
from sundog.wire import lanes as wire
from sundog.worker import exits, large_code, stdio
from sundog.worker.answers import FLUSH_BYTES, AnswerLane, LoadedFn
from sundog.worker.deadlines import Deadlines
from sundog.worker.gates import Gates
from sundog.worker.inspection import Inspection
from sundog.worker.meter import Meter
from sundog.worker.results import Partial, Results
from sundog.worker.unsent import Unsent

_time = time.time
_loads, _dumps = pickle.loads, pickle.dumps
_pack_event = EVENT.pack_into
_NUMBERS = frozenset({int, float, bool})
_NOTHING: tuple[()] = ()
_BLOB_KEPT_BYTES = 64 << 10
_MANY_BYTES = event_facts.MOVED_LEAST_BYTES // 2
_CANCELS = (KeyboardInterrupt, exits.CallCancelled)


class Executor:
    """Runs tasks and calls of one worker process."""

    meter: Meter  # both are set by the process
    title: Title

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.shm_root = owner.control.shm_root
        self.ring: Ring | NoRing = owner.ring
        self.sampler: Any = None  # set by the process: samples the current serving
        self.named: tuple[bytes, str] = (b"", "")  # the task that `_run_any` runs, if it runs one at a time
        self.codes: dict[bytes, Callable[..., object]] = {}
        self.actor: object = None
        self.actor_id: bytes | None = None
        self.actor_retry: object = False
        self.concurrent = False  # several calls run at a time: the running call is in a context variable
        self.method_names: dict[str, int] = {}
        self.interrupting: bytes | None = None  # the task that a cancel is about to interrupt
        self.unsent = Unsent(owner.segments)
        self.gates = Gates()  # gates of generators that wait for their consumers
        self.cancelled: set[bytes] = set()
        self.cancelled_early: dict[bytes, None] = {}  # not here: still in a socket, or finished
        self.item_waits: Callable[[], None] = _nobody  # set by serving: an item was queued and not sent
        self.deadlines = Deadlines(owner)
        self.results = Results(self)
        self.exit_after: str | None = None
        self.worn_out = False  # max_calls is reached
        self.exit_code = 0  # not 0: an unintended end, after which the actor may restart
        self.exit_error: type[BaseException] = SystemExit  # what exit_actor() raises
        self.on_exit: Callable[[], None] = _nobody  # called when the actor shall end after its calls
        self.on_late_exit: Callable[[], None] = _nobody  # ... now, with unfinished calls
        self.left: set[bytes] = set()  # calls that called exit_actor(): they are never answered
        self.attention = False  # a call was cancelled or called exit_actor(): check each call that returns
        self.cancel_wins = False  # a cancelled call always ends as cancelled (asyncio)
        self.on_signal: Callable[[FrameType | None], None] | None = None  # for signals to the main thread
        self.breakpoints: Any = None  # set by the process
        self.inspection = Inspection(self)

    def disown(self) -> None:
        """In a child that user code forked: record nothing, because the ring belongs to the parent."""
        self.ring = self.owner.ring = NoRing()
        self.meter = Meter(self.ring)
        self.sampler.dormant = False

    # ------------------------------------------------------------------ the end of an actor
    def leave(self, reason: str) -> None:
        """End the actor when the calls that run have ended. The call that asks, if one does, is not answered."""
        if self.exit_after is None:
            self.exit_after = reason
        self.attention = True
        running = context.running.get()
        if running is None and threading.current_thread() is threading.main_thread():
            running = context.main_task
        if running is not None:
            self.left.add(running[0])
        if self.concurrent:
            limit_s = self.owner.config.actor_graceful_shutdown_timeout_ms / 1000
            interrupts.send_later(limit_s, self.on_late_exit)
        self.on_exit()

    def look_at(self, task_id: bytes) -> None:
        """A call has returned: check whether it called exit_actor(), or was cancelled before."""
        if task_id in self.left:
            raise SystemExit
        if task_id in self.cancelled and self.actor_id is not None:
            raise exits.CallCancelled

    # ------------------------------------------------------------------ functions
    def learn(self, lane: AnswerLane, fns: list[wire.FnWire | None]) -> None:
        """Remember functions that an owner sent; None: the owner sends them again when needed."""
        for described in fns:
            if described is None:
                lane.fns.clear()
                self.codes.clear()
            else:
                lane.fns[described[0]] = LoadedFn(described)

    def load(self, fn: LoadedFn) -> Callable[..., object]:
        """The function itself; one definition is unpickled once, from whichever owner it comes.

        Raises:
            RuntimeError: it cannot be unpickled here, as in Ray; its cause is what was raised.
        """
        function = self.codes.get(fn.code_hash)
        if function is None:
            try:
                function = self.codes[fn.code_hash] = large_code.load(fn.blob, fn.name, self.ring, _loads)
            except Exception as error:
                raise RuntimeError(
                    f"The function {fn.name}() cannot be loaded in its worker (pid {os.getpid()}): "
                    f"{type(error).__name__}: {error}. Most often a module that it uses is missing there: install it, "
                    'or send it along with runtime_env={"py_modules": [...]} or {"working_dir": ...}.'
                ) from error
        if len(fn.blob) > _BLOB_KEPT_BYTES:
            fn.blob = b""  # the capsule of a failure pickles the function again
        fn.code = fingerprint(function)
        fn.name_id = self.ring.name(fn.name, fn.code, getattr(function, "__name__", ""))
        fn.function = function
        if isinstance(fn.retry, bytes):
            fn.retry = _loads(fn.retry)
        if fn.returns == 1 and not fn.max_calls:
            fn.plain = (function, fn.name, fn.name_id, fn.retry)
        return function

    # ------------------------------------------------------------------ arguments
    def arguments(
        self, args: Any, extra: wire.Extra | None, received: list[bytes]
    ) -> tuple[tuple[object, ...] | list[object], dict[str, object]]:
        """Positional and keyword arguments; ids of refs and viewed objects go to `received`."""
        if args is None:
            return (), {}
        collectors.received = received
        try:
            values = extra.get(wire.EXTRA_VALUES, ()) if extra is not None else ()
            slots = [self._slot_value(oid, value, received) for oid, value in values]
            if 0 < len(slots) < len(SLOTS_ALONE) and args == SLOTS_ALONE[len(slots)]:
                return slots, {}
            if type(args) is bytes:
                payload = _loads(args)
            else:
                payload = self._slot_value(args[1], (wire.OK, *args[2:], None), received)
            positional, named = payload if type(payload) is list else (payload, {})
            if slots:
                positional = [slots[a.index] if type(a) is Slot else a for a in positional]
                named = {k: slots[a.index] if type(a) is Slot else a for k, a in named.items()}
        finally:
            collectors.received = None
        return positional, named

    def _slot_value(self, oid: bytes, value: wire.WireValue, received: list[bytes]) -> object:
        _, meta, location, _ = value
        if location is None:
            return unpack(meta, None)
        received.append(oid)
        return unpack(meta, self._view(location, oid))

    def _view(self, location: Location, oid: bytes) -> Buffers:
        try:
            return self.owner.segments.view(location, oid)
        except ObjectLostError:
            raise CopyLost(oid, location[0]) from None

    # ------------------------------------------------------------------ one task, start to reply
    def run(self, lane: AnswerLane, item: wire.Item, last: bool = False) -> float:
        """Run a task or a call in this thread and queue its reply; `last` sends it without delay.

        The common case (no options on the call, one result) is written out here: a call of a function less is a
        microsecond less where the last task has taken the caches. Returns when it ended.
        """
        task_id, what, args, submit_s, extra = item
        if self.concurrent or (extra is not None and extra.keys() != wire.VALUES_ALONE):
            return self._run_with_options(lane, item)
        if type(what) is int:
            fn = lane.fns.get(what)
            if fn is None or fn.plain is None:
                return self._run_any(lane, item)
            function, name, name_id, retry = fn.plain
            kind = events.TASK
        else:
            if what[0] == "_":
                return self._run_any(lane, item)
            try:
                function = getattr(self.actor, what)
            except AttributeError:
                return self._run_any(lane, item)
            if type(function) is not MethodType:  # the instance has such an attribute: see `method`
                return self._run_any(lane, item)
            name, retry = what, self.actor_retry
            name_id = self.method_names.get(what) or self._method_id(what)
            kind = events.CALL
        ring = self.ring
        received: list[bytes] | None = None
        start = _time()
        ring.started(task_id, start, name_id)
        title = self.title
        if name != title.name and start > title.again_at:
            title.runs(name, start)
        context.main_task = (task_id, name, 0, lane.owner_id)
        try:
            if args is None:
                result = function()
            elif extra is None and type(args) is bytes and b"rebuild" not in args:  # no refs in the arguments
                payload = _loads(args)
                if type(payload) is tuple:
                    result = function(*payload)
                else:
                    result = function(*payload[0], **payload[1])
                payload = None
            else:
                received = []
                positional, named = self.arguments(args, extra, received)
                result = function(*positional, **named)
                positional = named = None  # type: ignore[assignment]
            end = _time()
            seconds = end - start
            if self.attention:
                self.look_at(task_id)
            buffers = inner = None
            if result is None:
                meta = NONE
            elif type(result) in _NUMBERS:
                meta = _dumps(result, 5)
            elif type(result) in SIMPLE:
                meta, buffers, inner = pack(result, self.owner.inline_max)
            else:
                meta, buffers, inner = self.pack_result(result, name)
            if buffers is None and inner is None and not received:
                result = None
                reply: wire.Reply = (task_id, 0, meta, seconds)
            else:
                # The caller gets the refs in the result before the local refs may die.
                value = self.value_of(lane, meta, buffers, inner)
                result = None
                self.unsent.sent()
                reply = (task_id, wire.R_VALUES, ([value], self.held(lane, received)), seconds)
        except BaseException as error:
            end = _time()
            self.inspection.failed(lane, item, name, error)
            if stdio.holding:
                stdio.end_lines()
            context.main_task = None
            if type(error) is not CopyLost:
                flags = self.flags_of(task_id, error)
                self.meter.write(kind, task_id, name_id, submit_s, start, end, flags)
                event_facts.moved(self.ring, task_id, 0, args, extra and extra[wire.EXTRA_VALUES], 0, end)
            self.reply_error(lane, task_id, name, error, retry, received, end - start)
            return end
        if stdio.holding:
            stdio.end_lines()
        context.main_task = None
        meter = self.meter
        measured = seconds >= meter.step_s
        if measured:
            meter.write(kind, task_id, name_id, submit_s, start, end)
            reply = (*reply[:3], meter.needed_s)
        if last and not lane.out and len(meta) < FLUSH_BYTES:
            lane.send_one(reply)
        elif lane.out_bytes + len(meta) < FLUSH_BYTES:  # what `reply` does, if the packet has room
            lane.out.append(reply)
            lane.out_bytes += len(meta) + 64
        else:
            lane.reply(reply, len(meta), self.shm_root)
        if not measured and end > meter.again_at:
            meter.write(kind, task_id, name_id, submit_s, start, end)
        elif not measured:
            # `Ring.write` written out, to save the call: 2 to 5 % of the time of many short tasks.
            index = ring.next()
            at = HEADER_BYTES + index % ring.capacity * EVENT_BYTES
            own = meter.own_bytes
            try:
                _pack_event(
                    ring.map, at, task_id, submit_s, start, end, name_id, kind, 0, 0, seconds, own, index + 1
                )
            except _PackError:
                ring.overflow(index, task_id, submit_s, start, end, name_id, kind, 0, 0, seconds, own)
        if received is not None or len(meta) > _MANY_BYTES or (args is not None and len(args) > _MANY_BYTES):
            event_facts.moved(ring, task_id, 0, args, extra and extra[wire.EXTRA_VALUES], len(meta), end)
        return end

    def _run_with_options(self, lane: AnswerLane, item: wire.Item) -> float:
        if item[4] is None or wire.EXTRA_TIMEOUT not in item[4]:
            return self._run_any(lane, item)
        if not self.deadlines.begin(lane, item):
            return _time()
        try:
            return self._run_any(lane, item)
        finally:
            self.deadlines.end(item[0])
            self.cancelled.discard(item[0])  # the call may have caught the interrupt and returned normally

    def _run_any(self, lane: AnswerLane, item: wire.Item) -> float:
        """Run any task or call: options, several results, generators, several at a time; returns when it ended."""
        task_id, what, args, submit_s, extra = item
        fn = name = None
        if type(what) is int:
            fn = lane.fns.get(what)
            if fn is None:
                # The owner took the packet with the function back; it sends it again.
                lane.reply((b"", wire.R_BACK, [task_id], 0.0), 24, self.shm_root)
                return _time()
        start = _time()
        self.ring.started(task_id, start, 0)
        received: list[bytes] = []
        attempt = extra.get(wire.EXTRA_ATTEMPT, 0) if extra else 0
        flags = events.HIDDEN if extra and wire.EXTRA_HIDDEN in extra else 0
        try:
            if fn is not None:
                name, returns = fn.name, fn.returns
                function = fn.function or self.load(fn)
                name_id = fn.name_id
                kind = events.TASK
            else:
                name, name_id = what, self._method_id(what)
                returns = 1
                function = self.method(what)
                kind = events.CALL
            if extra is not None:
                returns = extra.get(wire.EXTRA_RETURNS, returns)
                name = extra.get(wire.EXTRA_NAME, name)
                if name_id and wire.EXTRA_NAME in extra:
                    name_id = self._named_call(name, what)
            if self.inspection.active or (extra is not None and wire.EXTRA_INSPECT in extra):
                function = self.inspection.wrapped(function, lane, item, name)
            self.ring.started(task_id, start, name_id)
            token = context.running.set((task_id, name, attempt, lane.owner_id))
            if not self.concurrent:
                self.named = (task_id, name)
                if name != self.title.name and start > self.title.again_at:
                    self.title.runs(name, start)
            try:
                positional, named = self.arguments(args, extra, received)
                if returns == 1:
                    result = function(*positional, **named)
                    positional = named = None  # type: ignore[assignment]
                    end = _time()
                    if self.attention:
                        self.look_at(task_id)
                    meta, buffers, inner = self.pack_result(result, name)
                    out = len(meta)
                    if buffers is None and inner is None and not received and not attempt:
                        del result
                        lane.reply((task_id, 0, meta, end - start), len(meta), self.shm_root)
                    else:
                        # The caller gets the refs in the result before the local refs may die.
                        value = self.value_of(lane, meta, buffers, inner)
                        del result
                        held = self.held(lane, received)
                        self.unsent.sent()
                        lane.reply(
                            (task_id, wire.R_VALUES, ([value], held), end - start), len(meta), self.shm_root
                        )
                else:
                    result = function(*positional, **named)
                    positional = named = None  # type: ignore[assignment]
                    out = self.results.answer(lane, task_id, name, returns, result, received, start, extra)
                    del result
                    end = _time()
            finally:
                if stdio.holding:
                    stdio.end_lines()
                context.running.reset(token)
            self.meter.write(kind, task_id, name_id, submit_s, start, end, flags, attempt)
            values = extra.get(wire.EXTRA_VALUES) if extra is not None else None
            event_facts.moved(self.ring, task_id, attempt, args, values, out, end)
            if fn is not None and fn.max_calls:
                self._count_call(lane, task_id, fn)
        except BaseException as error:
            end = _time()
            self.inspection.failed(lane, item, name or str(what), error)
            if type(error) is not CopyLost:
                kind = events.TASK if fn is not None else events.CALL
                if fn is not None:
                    name_id = fn.name_id or self.ring.name(fn.name, fn.code)
                else:
                    given = extra.get(wire.EXTRA_NAME) if extra else None
                    name_id = self._named_call(given, what) if given else self._method_id(what)
                flags |= self.flags_of(task_id, error)
                self.meter.write(kind, task_id, name_id, submit_s, start, end, flags, attempt)
                values = extra.get(wire.EXTRA_VALUES) if extra is not None else None
                out = self.results.streamed.pop(task_id, 0)
                event_facts.moved(self.ring, task_id, attempt, args, values, out, end)
            retry = fn.retry if fn else self._call_retry(extra)
            self.reply_error(lane, task_id, name or str(what), error, retry, received, end - start, attempt)
        return end

    def _method_id(self, what: str) -> int:
        found = self.method_names.get(what)
        if found is None:
            code = fingerprint(getattr(type(self.actor), what, None))
            found = self.method_names[what] = self.ring.name(f"{context.facts.actor_class}.{what}", code)
        return found

    def _named_call(self, name: str, what: str) -> int:
        """The number of a name that a call was given, written with its method's."""
        code = fingerprint(getattr(type(self.actor), what, None))
        return self.ring.name(name, code, f"{context.facts.actor_class}.{what}")

    def method(self, name: str) -> Callable[..., object]:
        """A method of the actor; some names are the runtime's own."""
        if name[0] == "_":
            if name == "__ray_terminate__":
                return self.terminate
            if name == "__ray_ready__":
                return lambda: True
            if name == "__ray_call__":
                return lambda function, *args, **kwargs: function(self.actor, *args, **kwargs)
        actor = self.actor
        for base in type(actor).__mro__:
            # Look on the class: the caller does not mean an attribute of the instance.
            if name in base.__dict__:
                member = base.__dict__[name]
                bind = getattr(type(member), "__get__", None)
                return member if bind is None else bind(member, actor, type(actor))  # type: ignore[no-any-return]
        return getattr(actor, name)  # type: ignore[no-any-return]

    def terminate(self) -> None:
        """Ends the actor after this call."""
        self.leave("__ray_terminate__ was called on it")
        raise SystemExit(0)

    def _call_retry(self, extra: wire.Extra | None) -> object:
        retry = extra.get(wire.EXTRA_RETRY, self.actor_retry) if extra else self.actor_retry
        return _loads(retry) if isinstance(retry, bytes) else retry

    # ------------------------------------------------------------------ results
    def pack_result(self, result: object, name: str) -> Packed:
        """Pickle a result; raises TypeError that names the member which cannot be."""
        try:
            return pack(result, self.owner.inline_max)
        except Exception as error:
            if type(result) is GeneratorType:  # a generator with num_returns=1: its first item is the result
                return pack(self.results.only_item(result, name), self.owner.inline_max)
            from sundog.serialize.inspect import explain

            raise TypeError(explain(result, error, what=f"the result of {name}()")) from error

    def value_of(
        self, lane: AnswerLane, meta: bytes, buffers: Buffers | None, inner: Any, index: int = 1
    ) -> wire.WireValue:
        """The wire form of a packed value, the task's result `index`; refs inside are given to the lane's owner."""
        location: Location | None = None
        if buffers:
            began, write = _time(), self.owner.segments.write if self.concurrent else self.unsent.write
            location = write(buffers, lane.owner_id)
            running = context.current()
            if running is not None:
                made = (running.task_id, index, location, began, _time(), running.attempt)
                event_facts.made(self.ring, events.RESULT, *made)
        if inner:
            with self.owner.lock:
                self.owner.objects.drain()
                self.owner.refs.give(lane.owner_id, inner)
                self.owner.objects.carry_out()
        return (wire.OK, meta, location, inner)

    def held(self, lane: AnswerLane, received: list[bytes] | None) -> list[bytes]:
        """Which refs and objects of the arguments live on after the task."""
        if not received:
            return []
        with self.owner.lock:
            self.owner.objects.drain()
            held = self.owner.refs.still_held(lane.owner_id, received)
            self.owner.objects.carry_out()
        if held and self.owner.reactor.dormant:
            self.owner.reactor.rouse()
        return held

    # ------------------------------------------------------------------ errors
    def reply_error(
        self,
        lane: AnswerLane,
        task_id: bytes,
        name: str,
        error: BaseException,
        retry: object,
        received: list[bytes] | None,
        seconds: float,
        attempt: int = 0,
    ) -> None:
        """Queue the reply for a task that raised, and record the error beside the attempt."""
        made: list[wire.WireValue] | None = None
        if type(error) is Partial:
            made, error = error.made, error.error
            self.unsent.sent()
        elif self.unsent.found:
            self.unsent.take_back(task_id)
        if type(error) is CopyLost:
            # The user's code has not run: the owner rebuilds the argument and sends the task again.
            error.__traceback__ = None
            lost = (error.oid, error.segment, self.held(lane, received))
            lane.reply((task_id, wire.R_LOST, lost, 0.0), 256, self.shm_root)
            # Reply now: the task is recorded as begun, and counts as lost if the next task ends this process.
            lane.flush(self.shm_root)
            return
        if self.exit_after is not None and task_id in self.left:
            return  # the actor ends, and the node tells the callers why
        if isinstance(error, SystemExit) and self.actor_id is not None:
            if self.exit_after is None:
                self.exit_code = exits.exit_code(error)
                self.exit_after = exits.told(error, f"its method {name}()")
            return  # the actor ends, as above
        overdue = self.deadlines.error_of(task_id)
        if overdue is not None:
            error.__traceback__ = None
            stored: BaseException = overdue
            error, in_order = overdue, False  # retry_exceptions applies to this error
        else:
            stored, retry, in_order = self._outcome(task_id, name, error, retry)
        if overdue is not None or task_id in self.cancelled or self.interrupting == task_id:
            self.interrupting = None
            self.cancelled.discard(task_id)
            self.owner.cancels.cancel_late(task_id)
        if isinstance(retry, (tuple, list)):
            retry = isinstance(error, tuple(retry))
        # The frames of the traceback hold the arguments. A frozen class refuses an assignment.
        BaseException.with_traceback(error, None)
        error = None  # type: ignore[assignment]
        note_error(self.ring, task_id, attempt, stored, in_order=in_order)
        value = self.packed_error(lane, stored)
        payload: tuple[object, ...] = (retry, value, self.held(lane, received))
        size = len(value[1])
        if made is not None:
            payload, size = (*payload, made), size + sum(len(each[1]) for each in made)
        lane.reply((task_id, wire.R_ERROR, payload, seconds), size, self.shm_root)
        if self.exit_after is not None and self.actor_id is None:
            lane.reply((task_id, wire.R_EXIT, None, 0.0), 16, self.shm_root)

    def _outcome(
        self, task_id: bytes, name: str, error: BaseException, retry: object
    ) -> tuple[BaseException, object, bool]:
        """What the owner is told about an error: the error to store, whether to retry, if intended."""
        if isinstance(error, _CANCELS) or (self.cancel_wins and task_id in self.cancelled):
            stored: BaseException = TaskCancelledError(
                f"Task {name} ({task_id.hex()}) was cancelled while it ran.", task_id=task_id.hex()
            )
            if type(error) is not exits.CallCancelled:  # the traceback says where it was interrupted
                stored = self.error_of(stored.with_traceback(error.__traceback__), name, task_id)
            return stored, wire.CANCELLED, self.actor_id is None
        if isinstance(error, SystemExit):
            if self.exit_after is None:
                self.exit_code = exits.exit_code(error)
                self.exit_after = exits.told(error, f"{name}()")
            return exits.error_of(error, name, task_id), True, exits.is_in_order(error)
        return self.error_of(error, name, task_id), retry, False

    def packed_error(self, lane: AnswerLane, error: BaseException) -> wire.WireValue:
        """An error on its way out."""
        meta, _, inner = pack(error, 1 << 62)
        return (wire.ERROR, *self.value_of(lane, meta, None, inner)[1:])

    def flags_of(self, task_id: bytes, error: BaseException) -> int:
        """How an attempt that raised is recorded: a call that ends its actor in good order has not failed."""
        in_order = self.actor_id is not None and (task_id in self.left or exits.is_in_order(error))
        return 0 if in_order else events.FAILED

    def error_of(self, error: BaseException, name: str, task_id: bytes) -> RayTaskError:
        """What the caller gets for an exception of the user's code."""
        return RayTaskError.from_exception(
            error, function_name=name, pid=os.getpid(), task_id=task_id.hex(), skip_frames_of=_NOTHING
        )

    def _count_call(self, lane: AnswerLane, task_id: bytes, fn: LoadedFn) -> None:
        fn.calls += 1
        if fn.calls >= fn.max_calls:
            self.worn_out, self.exit_after = True, f"{fn.name} has run max_calls={fn.max_calls} times here"
            lane.reply((task_id, wire.R_EXIT, None, 0.0), 16, self.shm_root)


def _nobody() -> None:
    return None
