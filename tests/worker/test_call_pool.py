"""The threads of a concurrency group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sundog.worker import call_pool
from sundog.worker.call_pool import CallPool

# The threads of a pool live as long as their worker; a test ends them by an exception.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


class World:
    """A pool whose threads a test can end: an item is (number, method, …), a method is what is called."""

    def __init__(self, size: int) -> None:
        self.ran: list[object] = []
        self.done = threading.Condition()
        self.pool = CallPool(size, "io", self._run)
        self._end = False

    def _run(self, _lane: Any, item: Any) -> None:
        item[2]()
        with self.done:
            self.ran.append(item[0])
            self.done.notify_all()

    def submit(self, number: object, call: Callable[[], object] = lambda: None, method: str = "m") -> None:
        self.pool.submit(None, (number, method, call, 0.0, None))  # type: ignore[arg-type]

    def await_ran(self, count: int) -> None:
        with self.done:
            assert self.done.wait_for(lambda: len(self.ran) >= count, 60)

    def end(self) -> None:
        """Have every thread raise SystemExit, which ends it."""

        def leave() -> None:
            raise SystemExit

        for runner in list(self.pool._runners):
            thread = runner.thread
            assert thread is not None
            while thread.is_alive():
                self.submit("end", leave, "leave")
                self.pool._wake.put(None)
                with self.pool._lock:
                    self.pool._awake = min(self.pool._awake + 1, self.pool.size)
                thread.join(0.01)


@pytest.fixture
def world() -> Iterator[Callable[[int], World]]:
    made: list[World] = []

    def make(size: int) -> World:
        made.append(World(size))
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_calls_start_in_the_order_in_which_they_came(world: Callable[[int], World]) -> None:
    one = world(1)
    for number in range(50):
        one.submit(number)
    one.await_ran(50)
    assert one.ran == list(range(50))


def test_calls_that_block_run_beside_each_other_up_to_the_size(world: Callable[[int], World]) -> None:
    two, gate = world(2), threading.Event()
    started = threading.Semaphore(0)

    def blocks() -> None:
        started.release()
        gate.wait(60)

    for number in range(3):
        two.submit(number, blocks)
    assert started.acquire(timeout=60) and started.acquire(timeout=60)
    assert not started.acquire(timeout=0.02)  # the third waits for a thread
    assert two.pool.look() == call_pool._FULL_S and len(two.pool.idents()) == 2
    gate.set()
    two.await_ran(3)


def test_threads_are_named_after_their_group_and_begin_when_they_are_needed(
    world: Callable[[int], World],
) -> None:
    many = world(8)
    assert many.pool.idents() == [] and many.pool.look() == -1.0
    many.submit(1)
    many.await_ran(1)
    [ident] = many.pool.idents()
    assert [each.name for each in threading.enumerate() if each.ident == ident] == ["sundog-io_0"]


def test_a_call_that_was_quick_and_blocks_now_is_noticed(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_pool, "QUICK_S", 60.0)  # every call counts as quick
    two, gate, inside = world(2), threading.Event(), threading.Event()
    two.submit("first")
    two.await_ran(1)

    def blocks() -> None:
        inside.set()
        gate.wait(60)

    two.submit("stuck", blocks)
    two.submit("behind")
    assert inside.wait(60)
    while "behind" not in two.ran:
        two.pool.look()
    gate.set()
    two.await_ran(3)
    assert two.ran == ["first", "behind", "stuck"]


def test_where_no_thread_can_be_started_the_existing_ones_run_the_calls(
    world: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    two, gate, inside = world(2), threading.Event(), threading.Event()

    def blocks() -> None:
        inside.set()
        gate.wait(60)

    two.submit("first", blocks)
    assert inside.wait(60)

    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        two.submit("second")
    gate.set()
    two.await_ran(2)
    assert two.ran == ["first", "second"] and len(two.pool.idents()) == 1
