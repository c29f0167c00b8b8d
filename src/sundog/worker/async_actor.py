"""Asyncio actors: all calls run in one event loop, in the main thread (with concurrency groups: `async_groups.py`).

Owns the loop and the count of running calls per concurrency group. Replies of one turn of the loop are
sent together at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import time
from collections import deque
from collections.abc import Coroutine, Iterator
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any

from sundog import events
from sundog.event_facts import MOVED_LEAST_BYTES, moved
from sundog.exceptions import AsyncioActorExit
from sundog.owner import context
from sundog.owner.core import Owner
from sundog.owner.long_waits import Places
from sundog.refs import ObjectRef
from sundog.state.wait_facts import MAIN, RunSlot
from sundog.wire import lanes as wire
from sundog.worker import stacks, stdio
from sundog.worker.answers import AnswerLane
from sundog.worker.async_run import AsyncRun
from sundog.worker.executor import Executor
from sundog.worker.meter import STEP_S, LoopMeter, Steps
from sundog.worker.results import bounds_of
from sundog.worker.sampler import Call, await_stack, thread_stack
from sundog.worker.serving import Serving
from sundog.worker.threaded_actor import group_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sundog.wire.lanes import Extra

_time = time.time
_perf = time.perf_counter
_running = context.running
_PACKETS_A_TURN = 8
_SHOWN_MAX = 4
_MANY_BYTES = MOVED_LEAST_BYTES // 2


class CallGroup:
    """Calls of one concurrency group: how many may run, how many do, which wait."""

    __slots__ = ("limit", "running", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting: deque[tuple[AnswerLane, wire.Item]] = deque()


class AsyncServing(Serving):
    """Serves an actor whose methods are coroutines."""

    def __init__(
        self, owner: Owner, executor: Executor, limit: int, groups: dict[str, int], cls: type
    ) -> None:
        super().__init__(owner, executor)
        self.open()
        executor.concurrent = True
        executor.meter = self.meter = LoopMeter(executor.ring)
        self.cls = cls
        self.groups = {name: CallGroup(size) for name, size in {**groups, "": limit}.items()}
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        # Not SystemExit: asyncio would raise a SystemExit of a task in the event loop itself.
        executor.exit_error = AsyncioActorExit
        executor.cancel_wins = True
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._dirty: set[AnswerLane] = set()
        self._group_names: dict[str, str] = {}
        self._finish: str | None = None
        self._ready: deque[tuple[CallGroup, AnswerLane, wire.Item]] = deque()  # calls to begin, in order
        self._run_due = False  # a run of these calls is scheduled, or in progress

    def run(self) -> str:
        """Run the loop until the actor ends."""
        self.loop.add_reader(self.epoll.fileno(), self._readable)
        self.loop.call_soon(self._readable)
        self.loop.run_forever()
        with contextlib.suppress(Exception):
            for task in list(self._tasks.values()):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
        self._flush_all()
        return self.stopping or "stopped"

    def _readable(self) -> None:
        if self.stopping is not None:
            self.loop.stop()
            return
        if self.executor.sampler.dormant:
            self.executor.sampler.wake()
        for fd, _ in self.epoll.poll(0):
            if fd == self.wake_r:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wake_r, 4096)
                continue
            lane = self.lanes.get(fd)
            if lane is None:
                continue
            for _ in range(_PACKETS_A_TURN):
                before = len(self.todo)
                self._take(lane, -1)
                if len(self.todo) == before:
                    break
        if self.stopping is not None:
            self.loop.stop()

    def _run_todo(self) -> None:
        if self.executor.exit_after is not None:
            self.todo.clear()  # calls that have not begun will not begin: the node tells the callers why
        while self.todo:
            lane, item = self.todo.popleft()
            name = item[4].get(wire.EXTRA_GROUP) if item[4] is not None else None
            if name is None:
                name = self._group_names.get(item[1])
                if name is None:
                    name = self._group_names[item[1]] = group_of(self.cls, item[1], None)
            group = self.groups.get(name)
            if group is None:
                known = sorted(each for each in self.groups if each)
                error = ValueError(f"This actor has no concurrency group {name!r}; it has {known}.")
                self.executor.reply_error(lane, item[0], str(item[1]), error, False, [], 0.0)
                lane.flush(self.shm_root)
            elif group.running < group.limit:
                self._start(group, lane, item)
            else:
                group.waiting.append((lane, item))

    def _start(self, group: CallGroup, lane: AnswerLane, item: wire.Item) -> None:
        group.running += 1
        if self._run_due or (item[4] is None and item[1] in self.meter.quick):
            self._ready.append((group, lane, item))
            if not self._run_due:
                self._run_soon()
        else:
            self._start_alone(group, lane, item)

    def _start_alone(self, group: CallGroup, lane: AnswerLane, item: wire.Item) -> None:
        """Begin a call in an asyncio task of its own, at the next turn of the loop."""
        extra = item[4]
        run = self._one if extra is None or wire.EXTRA_TIMEOUT not in extra else self._bounded
        steps = Steps(self.meter, lambda steps: run(group, lane, item, steps))
        self._tasks[item[0]] = self.loop.create_task(steps)

    # ------------------------------------------------------------------ quick calls, many in one asyncio task
    def _run_soon(self) -> None:
        self._run_due = True
        run = AsyncRun(self._begin, self._tasks.__setitem__, self._run_rests)
        run.task = self.loop.create_task(run)

    def _begin(self) -> tuple[bytes, Coroutine[object, object, None]] | None:
        """Begin the next call of this run. Calls that are not quick begin at the next turn of the loop, and
        later calls after them.
        """
        alone = False
        while self._ready:
            group, lane, item = self._ready[0]
            quick = item[4] is None and item[1] in self.meter.quick
            if quick and alone:
                break
            self._ready.popleft()
            if quick:
                return item[0], self._one(group, lane, item, None)
            self._start_alone(group, lane, item)
            alone = True
        return None

    def _run_rests(self) -> None:
        if self._ready:
            self._run_soon()
        else:
            self._run_due = False
        self._flush_dirty()
        if not self._tasks and not self._run_due and self.stopping is None:
            self._look_around()

    def _look_around(self) -> None:
        """All calls are done: look for the next one for a moment, as long as the loop has nothing else to do."""
        spin_s = self.spins.next_s()
        if not spin_s:
            return
        ready = getattr(self.loop, "_ready", ())
        poll, yield_core = self.epoll.poll, os.sched_yield
        end = _perf() + spin_s
        while not ready:
            if poll(0):
                self.spins.ended(True)
                self._readable()
                return
            if _perf() > end or self.stopping is not None:
                self.spins.ended(False)
                return
            yield_core()

    async def _bounded(
        self, group: CallGroup, lane: AnswerLane, item: wire.Item, steps: Steps | None
    ) -> None:
        """A call with a timeout_s or a queue_timeout_s."""
        call = self._one(group, lane, item, steps)
        if not self.executor.deadlines.begin(lane, item, call):
            call.close()
            self._ended(group, lane, item[0])
            return
        try:
            await call
        finally:
            self.executor.deadlines.end(item[0])

    async def _one(self, group: CallGroup, lane: AnswerLane, item: wire.Item, steps: Steps | None) -> None:
        task_id, what, args, submit_s, extra = item
        executor, meter = self.executor, self.meter
        start = _time()
        executor.ring.started(task_id, start, executor.method_names.get(what) or executor._method_id(what))
        received: list[bytes] = []
        failed = attempt = out = 0
        name: str = what
        returns: int | str = 1
        try:
            if extra is not None:
                name = extra.get(wire.EXTRA_NAME, what)
                attempt = extra.get(wire.EXTRA_ATTEMPT, 0)
                returns = extra.get(wire.EXTRA_RETURNS, 1)
                failed = events.HIDDEN if wire.EXTRA_HIDDEN in extra else 0
            _running.set((task_id, name, attempt, lane.owner_id))
            method = executor.method(what)
            if executor.inspection.active or (extra is not None and wire.EXTRA_INSPECT in extra):
                method = executor.inspection.wrapped(method, lane, item, name)
            if args is None:
                result = method()
            else:
                positional, named = executor.arguments(args, extra, received)
                result = method(*positional, **named)
                positional = named = None  # type: ignore[assignment]
            if type(result) is CoroutineType:
                result = await result
            elif returns == "streaming" and (inspect.isasyncgen(result) or inspect.isgenerator(result)):
                returns = await self._stream(lane, task_id, name, result, extra)
                lane.reply(
                    (task_id, wire.R_END, (returns, executor.held(lane, received)), _time() - start),
                    64,
                    self.shm_root,
                )
                return
            elif inspect.isawaitable(result) and not isinstance(result, ObjectRef):
                result = await result  # if a method returns a ref, the value of the ref is the result
            if executor.left:
                executor.look_at(task_id)
            if executor.cancelled and task_id in executor.cancelled:
                # the call ended after its cancel: its caller was promised an error
                raise asyncio.CancelledError
            if returns == 1:
                meta, buffers, inner = executor.pack_result(result, name)
                out = len(meta)
                if buffers is None and inner is None and not received and not attempt:
                    lane.reply((task_id, 0, meta, _time() - start), len(meta), self.shm_root)
                    return
                values = [executor.value_of(lane, meta, buffers, inner)]
            else:
                out = executor.results.answer(lane, task_id, name, returns, result, received, start, extra)
                return
            del result
            payload = (values, executor.held(lane, received))
            size = sum(len(value[1]) for value in values)
            lane.reply((task_id, wire.R_VALUES, payload, _time() - start), size, self.shm_root)
        except BaseException as error:
            failed |= executor.flags_of(task_id, error)
            executor.inspection.failed(lane, item, name, error)
            if isinstance(error, asyncio.CancelledError):
                if self.stopping is not None:
                    return  # the actor ends during this call: the node tells the caller why
                executor.cancelled.add(task_id)
            elif isinstance(error, AsyncioActorExit) and executor.exit_after is not None:
                # Raised by exit_actor(): the actor ends, and the node tells the callers why. A thread in which it was
                # raised may still hold the error, and must not keep the actor alive by its frames: __del__ runs.
                error.__traceback__ = None
                return
            try:
                executor.reply_error(
                    lane,
                    task_id,
                    name,
                    error,
                    executor._call_retry(extra),
                    received,
                    _time() - start,
                    attempt,
                )
            except BaseException:
                self.fall_over()
        finally:
            end = _time()
            name_id = executor.method_names.get(what) or executor._method_id(what)
            if extra is not None and wire.EXTRA_NAME in extra:
                name_id = executor._named_call(name, what)
            if steps is None and end <= meter.again_at and end - start < STEP_S:
                executor.ring.write(
                    events.CALL,
                    task_id,
                    name_id,
                    submit_s,
                    start,
                    end,
                    failed,
                    attempt,
                    end - start,
                    meter.own_bytes,
                )
            else:
                meter.write_call(steps, what, task_id, name_id, submit_s, start, end, failed, attempt)
            if executor.results.streamed:
                out += executor.results.streamed.pop(task_id, 0)
            if extra is not None or out > _MANY_BYTES or (args is not None and _is_large(args)):
                given = extra.get(wire.EXTRA_VALUES) if extra is not None else None
                moved(executor.ring, task_id, attempt, args, given, out, end)
            self._ended(group, lane, task_id)

    def _ended(self, group: CallGroup, lane: AnswerLane, task_id: bytes) -> None:
        self._tasks.pop(task_id, None)
        self.executor.cancelled.discard(task_id)
        group.running -= 1
        if group.waiting and self.executor.exit_after is None:
            self._start(group, *group.waiting.popleft())
        if lane not in self._dirty:
            self._flush_soon(lane)
        if self.executor.exit_after is not None or self._finish is not None:
            self._maybe_stop()

    async def _stream(
        self, lane: AnswerLane, task_id: bytes, name: str, result: object, extra: Extra | None
    ) -> int:
        gates, results = self.executor.gates, self.executor.results
        per_yield, limit = bounds_of(extra)
        turn = _AsyncGate(self.loop)
        gate = gates.open(task_id, lane.owner_id, limit, turn.set)
        items = _as_async(result)
        index = 0
        try:
            while True:
                while gate is not None and not gate.abandoned and not gates.admit(gate, per_yield):
                    await turn.wait()
                if gate is not None and gate.abandoned:
                    return index
                try:
                    each = await anext(items)
                except BaseException as error:
                    if gate is not None:
                        gates.withdraw(gate, per_yield)
                    if type(error) is StopAsyncIteration:
                        return index
                    raise
                index += per_yield
                if per_yield == 1:
                    results.send_item(lane, task_id, index, each, name)
                elif not results.send_group(lane, task_id, index, each, name, per_yield):
                    return index
                each = None
                self._flush_soon(lane)
        finally:
            gates.close(task_id)
            await items.aclose()

    def _flush_soon(self, lane: AnswerLane) -> None:
        if lane not in self._dirty:
            self._dirty.add(lane)
            if not self._run_due:  # a run of calls sends finished replies at its end
                self.loop.call_soon(self._flush_dirty)

    def _flush_dirty(self) -> None:
        if stdio.holding:
            # While other calls run, an unfinished line may be theirs: write it without a newline, so that it
            # can continue.
            (stdio.flush if self._tasks else stdio.end_lines)()
        dirty, self._dirty = self._dirty, set()
        for lane in dirty:
            lane.flush(self.shm_root)

    def _maybe_stop(self) -> None:
        if not self._tasks and not self._ready:
            self.stopping = self.executor.exit_after or self._finish
        if self.stopping is not None:
            self.loop.call_soon(self.loop.stop)

    # ------------------------------------------------------------------ from the reader thread
    def finish_then_stop(self, reason: str) -> None:
        """End when the calls that are here have ended."""

        def finish() -> None:
            self._finish = reason
            self._maybe_stop()

        self.loop.call_soon_threadsafe(finish)

    def exit_soon(self) -> None:
        """End when the calls that have begun have ended. Any thread."""
        self.loop.call_soon_threadsafe(self._maybe_stop)

    def wake(self) -> None:
        """Make the loop look at `stopping`."""
        self.loop.call_soon_threadsafe(self._readable)

    def cancel(self, task_id: bytes, recursive: bool) -> None:
        """Cancel a call: its asyncio task, or its place in the queue."""
        if task_id in self._tasks:
            self.executor.cancelled.add(
                task_id
            )  # also if the call blocks the event loop and ends before it can be cancelled
        if recursive:
            # First: tasks that the call submits in response to its cancel must not be cancelled too.
            self.owner.cancels.cancel_children_of(task_id)
        self.loop.call_soon_threadsafe(self._cancel, task_id, recursive, True)

    def end_call(self, task_id: bytes) -> bool:
        """The time limit of a call has passed: cancel the call."""
        self.loop.call_soon_threadsafe(self._cancel, task_id)
        return True

    def busy_with(self) -> str:
        """The stack of the call that blocks the loop; otherwise the place at which the first running call
        awaits something.
        """
        if asyncio.current_task(self.loop) is not None:
            return stacks.of_thread(self.main_thread)
        found = (stacks.of_coroutine(task.get_coro()) for task in list(self._tasks.values())[:_SHOWN_MAX])
        return "\n  and\n".join(stack for stack in found if stack)

    def _cancel(self, task_id: bytes, recursive: bool = False, asked: bool = False) -> None:
        task = self._tasks.get(task_id)
        if task is not None:
            if inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CREATED:  # type: ignore[arg-type]
                # A coroutine that is cancelled before its first step would never send its reply.
                self.loop.call_soon(self._cancel, task_id, recursive, asked)
            else:
                if asked:  # a request, and not a timeout
                    self.executor.cancelled.add(task_id)
                if recursive:
                    childless = self.owner.cancels.childless
                    # A call may have caught its cancel and returned normally.
                    childless.intersection_update(self._tasks)
                    childless.add(task_id)
                task.cancel()
            return
        if any(call[2][0] == task_id for call in self._ready):
            # the call begins in this turn of the event loop
            self.loop.call_soon(self._cancel, task_id, recursive, asked)
            return
        for group in self.groups.values():
            for entry in list(group.waiting):
                if entry[1][0] == task_id:
                    group.waiting.remove(entry)
                    self._reply_cancelled(entry[0], task_id)
                    return
        self.cancel_early(task_id)

    def oldest_call(self) -> Call | None:
        """The call that blocks the loop now, otherwise the call that has been suspended longest; for the
        sampler.
        """
        held = _frame_of_one(thread_stack(self.main_thread))
        if held is not None:
            return held.f_locals["item"][0], held.f_locals["start"], thread_stack(self.main_thread)
        for task_id, task in self._tasks.items():
            coro: Any = task.get_coro()
            names = coro.cr_frame.f_locals if coro.cr_frame is not None else {}
            return None if "start" not in names else (task_id, names["start"], await_stack(coro))
        return super().oldest_call()

    def places(self, main_runs: bytes) -> Places:
        """A call that blocks the loop blocks all other calls; otherwise no call blocks another for ever."""
        if main_runs:
            return (RunSlot(MAIN, 1, (main_runs,)),), (), True
        running = (*self._tasks, *(item[0] for _, _, item in tuple(self._ready)))
        return (RunSlot("loop", len(running) + 1, running),), (), False

    def running_calls(self) -> dict[bytes, float]:
        """The calls whose coroutines have begun, and since when."""
        found = {}
        for task_id, task in list(self._tasks.items()):
            frame = getattr(task.get_coro(), "cr_frame", None)
            if frame is not None and "start" in frame.f_locals:
                found[task_id] = frame.f_locals["start"]
        return found

    def before_block(self) -> None:
        """A get in a coroutine blocks the loop; at least send what is done."""
        self._flush_all()

    def after_block(self) -> None:
        """Nothing was given back."""
        time.sleep(0)


def _frame_of_one(frames: Iterator[FrameType]) -> FrameType | None:
    """The frame of the call that a stack belongs to, once it has begun."""
    for frame in frames:
        if frame.f_code is AsyncServing._one.__code__:
            return frame if "start" in frame.f_locals else None
    return None


class _AsyncGate:
    """An asyncio event that another thread may set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()

    def set(self) -> None:
        """Set the event from any thread."""
        self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        """Wait until the event is set, and reset it."""
        await self._event.wait()
        self._event.clear()


async def _as_async(result: Any) -> AsyncGenerator[object, None]:
    if inspect.isasyncgen(result):
        async for each in result:
            yield each
    else:
        for each in result:
            yield each
            await asyncio.sleep(0)


def _is_large(args: object) -> bool:
    return type(args) is not bytes or len(args) > _MANY_BYTES
