"""Asyncio actors with concurrency groups: each group, the default one too, has an event loop in a thread of its own.

::

    main thread: lanes ─► todo ─► the group of the call ─► its loop: up to so many coroutines at a time

So a call that blocks its loop holds up its own group and nothing else. Owns which call is in which group. The loops run
calls as the one loop of an actor without groups does (`async_actor.py`). Runs in an actor's worker.
"""

from __future__ import annotations

import asyncio
import threading
import time

from sundog.owner.core import Owner
from sundog.owner.long_waits import Places
from sundog.state.wait_facts import RunSlot
from sundog.wire import lanes as wire
from sundog.worker.answers import AnswerLane
from sundog.worker.async_actor import AsyncServing, CallGroup
from sundog.worker.executor import Executor
from sundog.worker.sampler import Call
from sundog.worker.serving import Serving
from sundog.worker.threaded_actor import group_of


class GroupLoop(AsyncServing):
    """The calls of one group, in the loop of its own thread. It reads no lane: calls are fed to it."""

    def __init__(
        self, whole: GroupedServing, owner: Owner, executor: Executor, limit: int, cls: type
    ) -> None:
        super().__init__(owner, executor, limit, {}, cls)
        self.whole = whole
        self.group: CallGroup = self.groups[""]

    def start(self, name: str) -> None:
        """Run the loop from now on."""
        label = f"sundog-{name or 'default'}-loop"
        threading.Thread(target=self._run_loop, daemon=True, name=label).start()

    def _run_loop(self) -> None:
        self.main_thread = threading.get_ident()
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def feed(self, lane: AnswerLane, item: wire.Item) -> None:
        """Have a call run here; from the main thread."""
        self.loop.call_soon_threadsafe(self._fed, lane, item)

    def _fed(self, lane: AnswerLane, item: wire.Item) -> None:
        if self.executor.exit_after is not None:
            return  # calls that have not begun will not begin
        if self.executor.sampler.dormant:
            self.executor.sampler.wake()
        if self.group.running < self.group.limit:
            self._start(self.group, lane, item)
        else:
            self.group.waiting.append((lane, item))

    def _look_around(self) -> None:
        """Nothing comes here by itself."""

    def _ended(self, group: CallGroup, lane: AnswerLane, task_id: bytes) -> None:
        super()._ended(group, lane, task_id)
        self.whole.call_ended(task_id)

    def _reply_cancelled(self, lane: AnswerLane, task_id: bytes) -> None:
        super()._reply_cancelled(lane, task_id)
        self.whole.call_ended(task_id)

    def _maybe_stop(self) -> None:
        """The actor as a whole stops."""


class GroupedServing(Serving):
    """Reads lanes in the main thread and hands each call to the loop of its group."""

    def __init__(
        self, owner: Owner, executor: Executor, limit: int, groups: dict[str, int], cls: type
    ) -> None:
        self.cls = cls
        sizes = {**groups, "": limit}
        self.loops = {name: GroupLoop(self, owner, executor, size, cls) for name, size in sizes.items()}
        self.loop = self.loops[""].loop  # for a constructor that is a coroutine
        self._where: dict[bytes, GroupLoop] = {}
        self._finish: str | None = None
        # Made after the loops: questions about this process come to this object.
        super().__init__(owner, executor)
        self.open()

    def run(self) -> str:
        """Serve until the actor ends."""
        for name, loop in self.loops.items():
            loop.start(name)
        reason = super().run()
        self._flush_all()
        return reason

    def _run_todo(self) -> None:
        while self.todo:
            lane, item = self.todo.popleft()
            name = group_of(self.cls, item[1], item[4])
            loop = self.loops.get(name)
            if loop is None:
                known = sorted(each for each in self.loops if each)
                error = ValueError(f"This actor has no concurrency group {name!r}; it has {known}.")
                self.executor.reply_error(lane, item[0], str(item[1]), error, False, [], 0.0)
                lane.flush(self.shm_root)
                continue
            self._where[item[0]] = loop
            loop.feed(lane, item)

    def _spin(self, lane: AnswerLane) -> int:
        """No spinning: it would take the interpreter lock from the calls."""
        return -1

    # ------------------------------------------------------------------ any thread
    def call_ended(self, task_id: bytes) -> None:
        """A call has been answered."""
        self._where.pop(task_id, None)
        if self.executor.exit_after is not None or self._finish is not None:
            self.exit_soon()

    def exit_soon(self) -> None:
        """End when the calls that have begun have ended; for the last handle's end: when all have."""
        if self.executor.exit_after is not None:
            idle = not any(loop.group.running for loop in self.loops.values())
        else:
            idle = self._finish is not None and not self._where
        if idle:
            self.stopping = self.executor.exit_after or self._finish
            self.wake()

    def finish_then_stop(self, reason: str) -> None:
        """End when the calls that are here have ended."""
        self._finish = reason
        self.exit_soon()

    def cancel(self, task_id: bytes, recursive: bool) -> None:
        """Cancel a call where it is."""
        loop = self._where.get(task_id)
        if loop is not None:
            loop.cancel(task_id, recursive)
        else:
            self.cancel_early(task_id)

    def end_call(self, task_id: bytes) -> bool:
        """The time limit of a call has passed: cancel the call."""
        loop = self._where.get(task_id)
        return loop is not None and loop.end_call(task_id)

    # ------------------------------------------------------------------ questions
    def busy_with(self) -> str:
        """Where the calls are that run in the loops."""
        return "\n  and\n".join(stack for loop in self.loops.values() if (stack := loop.busy_with()))

    def places(self, main_runs: bytes) -> Places:
        """The groups, with the calls that run in each: a call that awaits blocks no other call for ever."""
        found = [(name, tuple(loop._tasks)) for name, loop in self.loops.items()]
        return (
            tuple(RunSlot(name or "default", len(running) + 1, running) for name, running in found),
            (),
            False,
        )

    def oldest_call(self) -> Call | None:
        """What has been running longest, for the sampler."""
        found = [call for loop in self.loops.values() if (call := loop.oldest_call()) is not None]
        return min(found, key=lambda call: call[1]) if found else super().oldest_call()

    def running_calls(self) -> dict[bytes, float]:
        """The calls whose coroutines have begun, and since when."""
        found: dict[bytes, float] = {}
        for loop in self.loops.values():
            found |= loop.running_calls()
        return found

    def before_block(self) -> None:
        """A get in a coroutine blocks its loop; at least send what is done."""
        self._flush_all()

    def after_block(self) -> None:
        """Nothing was given back."""
        time.sleep(0)
