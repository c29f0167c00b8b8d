"""The threads of one concurrency group of an actor, and the calls that wait for them.

Calls start in the order they came. A call that may take long or block has another thread woken for the next one
before it starts. Calls of methods that are known to be quick follow each other in one thread: handing one over
costs more than it takes, and threads that wait for the interpreter take it from each other. A quick one that blocks
all the same is noticed by `look`, and the others go on beside it.

::

    submit ─► waiting ─► a thread: run
                ▲            │ goes idle when nothing waits, or when another thread is at the quick ones
                └── look ────┘ main thread, every millisecond while calls wait and threads rest

Owned by `ThreadedServing`, whose main thread submits and looks.
"""

from __future__ import annotations

import threading
import time
from _queue import SimpleQueue  # not `queue`: a user's module may have that name
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sundog.wire.lanes import Item
    from sundog.worker.answers import AnswerLane

QUICK_S = 2e-4
STUCK_S = 1e-3
_FULL_S = 0.02
_perf = time.perf_counter

Call = tuple["AnswerLane", "Item"]  # the lane, and the item that arrived on it


class _Runner:
    """What is known of one thread."""

    __slots__ = ("away", "since_s", "thread")

    def __init__(self) -> None:
        self.since_s = 0.0  # when the thread's call began; 0 between calls
        self.away = False  # its call is long, so this thread does not start waiting calls
        self.thread: threading.Thread | None = None


class CallPool:
    """Runs calls in up to `size` threads.

    Args:
        run: runs a call to its end; must not raise.
    """

    def __init__(self, size: int, name: str, run: Callable[[AnswerLane, Item], None]) -> None:
        self.size = size
        self.name = name
        self.waiting: deque[Call] = deque()
        self._run = run
        self._quick: set[object] = set()  # methods whose last call was quick
        self._runners: list[_Runner] = []
        self._lock = threading.Lock()
        self._awake = 0  # threads that run a call or are about to take one
        self._away = 0  # how many of these threads are in a long call
        self._wake: SimpleQueue[None] = SimpleQueue()

    def submit(self, lane: AnswerLane, item: Item) -> None:
        """Queue a call for the threads."""
        self.waiting.append((lane, item))
        with self._lock:
            nobody = self._awake == self._away
        if nobody:
            self._wake_one()

    def look(self) -> float:
        """Start threads for waiting calls if needed; returns when to check again, in seconds, or -1."""
        if not self.waiting:
            return -1.0
        if self._awake == self.size:
            return _FULL_S  # there is no idle thread to wake
        late = _perf() - STUCK_S
        for runner in self._runners:
            since_s = runner.since_s
            if 0.0 < since_s < late and not runner.away:
                self._leave(runner)
                if runner.since_s != since_s:
                    # the call has just ended, and the thread may not have noticed that it was marked as away
                    self._return(runner)
        if self._awake == self._away:
            self._wake_one()
        return STUCK_S

    def idents(self) -> list[int]:
        """The threads, for a look at their stacks."""
        threads = [runner.thread for runner in self._runners]
        return [thread.ident for thread in threads if thread is not None and thread.ident is not None]

    def _wake_one(self) -> None:
        with self._lock:
            if self._awake == self.size:
                return
            self._awake += 1
            if self._awake <= len(self._runners):
                self._wake.put(None)
                return
            runner = _Runner()
            self._runners.append(runner)
        name = f"sundog-{self.name or 'default'}_{len(self._runners) - 1}"
        runner.thread = threading.Thread(target=self._serve, args=(runner,), daemon=True, name=name)
        try:
            runner.thread.start()
        except RuntimeError:  # the system allows no more threads: the existing threads run the calls
            with self._lock:
                self._runners.remove(runner)
                self._awake -= 1
            if not self._runners:
                raise

    def _serve(self, runner: _Runner) -> None:
        waiting, quick = self.waiting, self._quick
        lane: AnswerLane | None
        item: Item | None
        while True:
            if self._may_rest():
                self._wake.get()
                continue
            try:
                lane, item = waiting.popleft()
            except IndexError:
                continue
            method = item[1]
            runner.since_s = start = _perf()
            if method not in quick:
                self._leave(runner)
                if waiting and self._awake == self._away:
                    self._wake_one()
            self._run(lane, item)
            item = lane = None
            if _perf() - start < QUICK_S:
                quick.add(method)
            else:
                quick.discard(method)
            runner.since_s = 0.0
            if runner.away:
                self._return(runner)

    def _leave(self, runner: _Runner) -> None:
        with self._lock:
            if not runner.away:
                runner.away = True
                self._away += 1

    def _return(self, runner: _Runner) -> None:
        with self._lock:
            if runner.away:
                runner.away = False
                self._away -= 1

    def _may_rest(self) -> bool:
        """Whether this thread is not needed now: nothing waits, or another looks after the quick calls that do."""
        waiting = self.waiting
        if waiting and self._awake - self._away == 1:
            return False
        with self._lock:
            try:
                method = waiting[0][1][1]
            except IndexError:
                pass
            else:
                if self._awake - self._away == 1 or method not in self._quick:
                    return False
            self._awake -= 1
            return True
