"""Storms of signals over every verb: programs for drivers and for tasks in workers.

A timer, which each signal sets anew, interrupts the main thread thousands of times while it calls verbs at random. The
handler calls verbs itself, or raises. Every value is checked, and at the end nothing may be left of what was begun.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sundog
from sundog import engines

SIGNALS = 3000
INTERVAL_S = (5e-5, 1e-3)
LIMIT_S = 25.0  # for a machine that has other work
LARGE = np.arange(50_000)


class Alarm(Exception):
    """What the handler raises."""


@sundog.remote
def same(value: Any = 6) -> Any:
    return value


@sundog.remote
def count_to(count: int) -> Any:
    yield from range(count)


@sundog.remote
def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@sundog.remote(num_cpus=0)
class Echo:
    def same(self, value: Any) -> Any:
        return value


class Verbs:
    """Every verb, with the value that it must give."""

    def __init__(self) -> None:
        self.kept = sundog.put([1, 2, 3])
        self.echo = Echo.remote()
        self.all: list[Callable[[], None]] = [
            self.one, self.many, self.put_large, self.put_small, self.put_ref, self.wait, self.call, self.depend,
            self.generate, self.time_out, self.cancel, self.create_and_kill, self.look_up,
            self.await_future,
        ]  # fmt: skip

    def one(self) -> None:
        assert sundog.get(same.remote()) == 6

    def many(self) -> None:
        assert sundog.get([same.remote(each) for each in range(20)]) == list(range(20))

    def put_large(self) -> None:
        assert sundog.get(sundog.put(LARGE))[7] == 7

    def put_small(self) -> None:
        assert sundog.get(sundog.put({"a": 1})) == {"a": 1}

    def put_ref(self) -> None:
        assert sundog.get(sundog.get(sundog.put([self.kept]))[0]) == [1, 2, 3]

    def wait(self) -> None:
        done, rest = sundog.wait([same.remote(each) for each in range(3)], num_returns=2)
        assert (len(done), len(rest)) == (2, 1)

    def call(self) -> None:
        assert sundog.get(self.echo.same.remote(LARGE))[3] == 3

    def depend(self) -> None:
        assert sundog.get(same.remote(same.remote(LARGE)))[4] == 4

    def generate(self) -> None:
        assert [sundog.get(each) for each in count_to.remote(5)] == list(range(5))

    def time_out(self) -> None:
        try:
            sundog.get(nap.remote(0.01), timeout=0.001)
        except sundog.exceptions.GetTimeoutError:
            pass

    def cancel(self) -> None:
        ref = nap.remote(0.02)
        sundog.cancel(ref)
        try:
            assert sundog.get(ref) == 0.02
        except sundog.exceptions.TaskCancelledError:
            pass

    def create_and_kill(self) -> None:
        if random.random() < 0.05:  # a process each
            sundog.kill(Echo.options(name="short", get_if_exists=True).remote())

    def await_future(self) -> None:
        assert same.remote(2).future().result() == 2

    def look_up(self) -> None:
        try:
            sundog.get_actor("nobody")
        except ValueError:
            pass


def storm(mode: str, seed: int = 1) -> dict[str, Any]:
    """Call verbs under SIGALRM, whose handler `calls` verbs or `raises`; returns what was counted and what is left."""
    random.seed(seed)
    verbs = Verbs()
    counted = {"signals": 0, "verbs": 0, "raised": 0}
    inside = False
    caught = False  # what is raised now would be caught

    def handler(_number: int, _frame: Any) -> None:
        nonlocal inside, caught
        counted["signals"] += 1
        if mode == "raises":
            set_timer()
            if caught:
                caught = False
                counted["raised"] += 1
                raise Alarm
        elif not inside:  # then it came in a verb of the handler's own
            inside = True
            set_timer()
            try:
                random.choice(verbs.all)()
            finally:
                inside = False
                set_timer()  # not before: the main thread would do nothing else

    def set_timer() -> None:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(*INTERVAL_S))

    def enough() -> bool:
        return counted["signals"] >= SIGNALS or time.monotonic() > end

    before = signal.signal(signal.SIGALRM, handler)
    assert signal.getsignal(signal.SIGALRM) is handler
    end = time.monotonic() + LIMIT_S
    set_timer()
    while not enough():
        try:
            caught = True
            random.choice(verbs.all)()
            counted["verbs"] += 1
            caught = False
        except Alarm:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    for each in verbs.all:
        each()
    del each
    tracing = sys.gettrace()
    return counted | {"tracing": tracing is not None} | left_over(verbs)


def left_over(verbs: Verbs) -> dict[str, int]:
    """What the owner of this process still knows when all refs are gone but those of `verbs`."""
    engine: Any = engines.current()
    owner = engine.owner
    end = time.monotonic() + 120
    while True:
        gc.collect()
        with owner.lock:
            owner.objects.drain()
            left = {
                "values": len(owner.ready) - 1,
                "tasks": len(owner.table),
                "waiters": len(owner.waiters),
                "dependents": len(owner.dependents),
                "freed early": len(owner.freed_early),
                "streams": len(owner.streams.streams),
                "owned": len(owner.refs.owned.keys() - {verbs.kept.binary(), *owner.actors.scopes}),
                "borrowed": len(owner.refs.borrowed),
                "leases": len(owner.dispatch.leases),
                "requests": len(owner.control._asked) + len(owner.control._answers),
            }
        if not any(left.values()) or time.monotonic() > end:
            return {name: count for name, count in left.items() if count}
        time.sleep(0.02)


def main(mode: str) -> None:
    """A driver under a storm."""
    sundog.init(num_cpus=2, log_to_driver=False)
    print(storm(mode), flush=True)
    sundog.shutdown()
    print("done", flush=True)


def main_of_worker(mode: str) -> None:
    """A driver whose task is under a storm, in its worker."""
    sundog.init(num_cpus=3, log_to_driver=False)
    print(sundog.get(sundog.remote(storm).remote(mode)), flush=True)
    sundog.shutdown()
    print("done", flush=True)
