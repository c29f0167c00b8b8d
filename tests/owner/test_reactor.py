"""Who reads the sockets: one leader at a time, or the background thread; timers; the end."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sundog.owner import reactor as reactor_module
from sundog.owner.reactor import Reactor
from tests.integration.gates import await_true


class Process:
    """A reactor over one pipe, whose bytes are `seen`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.rounds = 0
        self.ticks = 0
        self.seen: dict[bytes, bool] = {}
        self.read, self.write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.reactor = Reactor(self.lock, self._after, self._tick, 0.0, 0.005)
        self.reactor.open()
        self.reactor.add(self.read, self._readable)

    def _after(self) -> None:
        self.rounds += 1

    def _tick(self) -> None:
        self.ticks += 1
        self.reactor.ticking = False

    def _readable(self) -> None:
        self.seen[os.read(self.read, 1)] = True


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    yield made
    with made.lock:
        made.reactor.close()
    made.reactor.release()
    os.close(made.read)
    os.close(made.write)


def test_a_leader_reads_until_what_it_waits_for_is_there(process: Process) -> None:
    threading.Timer(0.01, lambda: os.write(process.write, b"ab")).start()
    assert process.reactor.lead(lambda: b"b" in process.seen, None, None) is True
    assert set(process.seen) == {b"a", b"b"} and process.rounds >= 2
    assert not process.reactor.leader


def test_a_deadline_ends_the_lead_after_a_last_look(process: Process) -> None:
    assert process.reactor.lead(lambda: False, 0.0, None) is False
    os.write(process.write, b"a")
    assert process.reactor.lead(lambda: b"a" in process.seen, 0.0, None) is True


def test_there_is_one_leader(process: Process) -> None:
    led: list[Any] = []

    def second() -> None:
        led.append(process.reactor.lead(lambda: True, None, None))
        led.append(process.reactor.lead_one(process.seen, b"a", None))
        os.write(process.write, b"a")

    thread = threading.Thread(target=second)
    assert process.reactor.lead(lambda: b"a" in process.seen, None, thread.start) is True
    thread.join()
    assert led == [None, False]


def test_before_it_blocks_a_leader_says_so_once(process: Process) -> None:
    blocked: list[int] = []

    def on_block() -> None:
        blocked.append(1)
        os.write(process.write, b"a")

    assert process.reactor.lead_one(process.seen, b"a", on_block)
    assert blocked == [1]


def test_a_leader_that_is_answered_soon_does_not_say_that_it_blocks(process: Process) -> None:
    blocked: list[int] = []
    process.reactor.spins.spin_s = 0.0
    writer = threading.Timer(0.001, os.write, (process.write, b"a"))
    writer.start()
    assert process.reactor.lead_one(process.seen, b"a", lambda: blocked.append(1), 120.0)
    writer.join()
    assert blocked == []


def test_a_leader_that_waits_longer_says_that_it_blocks(process: Process) -> None:
    def on_block() -> None:
        os.write(process.write, b"a")

    assert process.reactor.lead_one(process.seen, b"a", on_block, 0.001)


class Turns:
    """A clock on which each turn of a spin lasts for a while; the answer comes with one of them."""

    def __init__(self, process: Process, turn_s: float, answered: int) -> None:
        self.process, self.turn_s, self.answered = process, turn_s, answered
        self.now = 0.0
        self.turns = 0

    def yield_core(self) -> None:
        self.turns += 1
        self.now += self.turn_s
        if self.turns == self.answered:
            os.write(self.process.write, b"a")

    def spin(self, monkeypatch: pytest.MonkeyPatch) -> bool:
        """Spin for 100 µs; whether it found the answer."""
        monkeypatch.setattr(reactor_module, "_perf", lambda: self.now)
        monkeypatch.setattr(os, "sched_yield", self.yield_core)
        return bool(self.process.reactor._spin(1e-4))


def test_a_spin_looks_until_its_time_is_over(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    process.reactor.spins.spin_s = 1e-4
    turns = Turns(process, 2e-6, 0)
    assert not turns.spin(monkeypatch) and turns.turns in (50, 51)


def test_a_spin_ends_once_its_core_was_used_by_another_thread(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.reactor.spins.spin_s = 1e-4
    turns = Turns(process, 8e-5, 3)
    assert not turns.spin(monkeypatch) and turns.turns == 1


@pytest.mark.parametrize(("turn_s", "spins_on"), [(2e-6, True), (8e-5, False)])
def test_an_answer_that_came_while_another_thread_used_the_core_is_one_in_vain(
    process: Process, monkeypatch: pytest.MonkeyPatch, turn_s: float, spins_on: bool
) -> None:
    process.reactor.spins.spin_s = 1e-4
    for _ in range(3):
        assert Turns(process, turn_s, 1).spin(monkeypatch)
        process.reactor.pump()
    assert (process.reactor.spins.next_s() > 0) is spins_on


def test_a_leader_of_one_object_gives_up_when_it_lasts(process: Process) -> None:
    process.reactor.patience_s = 0.0
    assert not process.reactor.lead_one(process.seen, b"a", None)
    assert not process.reactor.leader


def test_the_background_thread_reads_when_nobody_leads_and_ticks(process: Process) -> None:
    came = threading.Event()
    process.reactor.after = lambda: came.set() if b"a" in process.seen else None
    process.reactor.start()
    os.write(process.write, b"a")
    assert came.wait(120)
    ticked = threading.Event()
    process.reactor.tick = ticked.set
    process.reactor.start_ticking()
    assert ticked.wait(120)


def test_a_shorter_interval_of_ticks_holds_at_once(process: Process) -> None:
    reactor = process.reactor
    with process.lock:
        reactor.tick_every(1000.0)
        reactor.ticking = True
        reactor._maybe_tick()
        assert process.ticks == 1
        reactor.ticking = True
        reactor.tick_every(0.0)
        reactor._maybe_tick()
    assert process.ticks == 2


def test_a_handler_that_raises_does_not_silence_the_background_thread(
    process: Process, capfd: pytest.CaptureFixture[str]
) -> None:
    came = threading.Event()

    def readable() -> None:
        if os.read(process.read, 1) == b"a":
            raise ValueError("a defect")
        came.set()

    process.reactor.handlers[process.read] = readable
    process.reactor.start()
    os.write(process.write, b"a")
    os.write(process.write, b"b")
    assert came.wait(120)
    assert "a defect" in capfd.readouterr().err


def test_a_writer_is_called_when_the_descriptor_takes_more(process: Process) -> None:
    called: list[int] = []
    process.reactor.add(process.write, lambda: None)
    process.reactor.watch_writable(process.write, lambda: called.append(1))
    process.reactor.pump()
    process.reactor.watch_writable(process.write, None)
    process.reactor.pump()
    assert called == [1]
    process.reactor.remove(process.write)


def test_the_end_wakes_a_leader(process: Process) -> None:
    def close() -> None:
        with process.lock:
            process.reactor.close()

    closer = threading.Thread(target=close)
    assert process.reactor.lead(lambda: False, None, closer.start) is False  # it leads, and is about to block
    closer.join()
    assert process.reactor.lead(lambda: True, None, None) is None, "nobody leads after that"


class Loop:
    """A loop of asyncio, as the reactor sees it."""

    def __init__(self, reactor: Reactor) -> None:
        self.epoll: select.epoll | None = select.epoll()
        self.epoll.register(reactor.ep.fileno(), 0)
        self.thread = threading.get_ident()
        self.needed = True
        self.asked = 0

    def is_needed(self) -> bool:
        return self.needed

    def soon(self) -> None:
        self.asked += 1

    def hears(self, timeout_s: float = 0) -> bool:
        assert self.epoll is not None
        return bool(self.epoll.poll(timeout_s))


def test_a_loop_that_stands_by_hears_what_comes_but_not_while_a_thread_leads(process: Process) -> None:
    reactor = process.reactor
    loop = Loop(reactor)
    with process.lock:
        reactor.stand_by(loop)
    os.write(process.write, b"a")
    assert loop.hears(30)
    assert (reactor.ep.fileno(), select.EPOLLIN) not in reactor.bg.poll(0.0)
    assert reactor.lead(lambda: b"a" in process.seen, None, None) is True
    os.write(process.write, b"b")
    heard: list[bool] = []

    def look() -> bool:
        heard.append(loop.hears())
        return len(heard) > 1

    assert reactor.lead(look, None, None) is True
    assert heard[0] is False and loop.hears() is False  # muted, then read by the leader
    os.write(process.write, b"c")
    assert loop.hears(30)
    with process.lock:
        reactor.pump_for(loop)
    assert b"c" in process.seen
    reactor.wake_soon()
    assert loop.asked == 1  # on its own thread: no other is woken
    with process.lock:
        reactor.stand_by(None)
    os.write(process.write, b"d")
    assert not loop.hears() and reactor.bg.poll(30)
    assert loop.epoll is not None
    loop.epoll.close()


@pytest.mark.parametrize("is_needed", [True, False])
def test_the_background_thread_reads_for_a_loop_that_does_not(process: Process, is_needed: bool) -> None:
    reactor = process.reactor
    loop = Loop(reactor)
    with process.lock:
        reactor.stand_by(loop)
    loop.needed = is_needed  # it is stuck, or it has ended
    reactor.start()
    os.write(process.write, b"a")
    await_true(lambda: b"a" in process.seen, "what the loop did not read")
    await_true(lambda: (reactor.stander is loop) is is_needed, "the end of its turn")
    assert loop.epoll is not None
    loop.epoll.close()


def test_a_reactor_whose_descriptors_the_program_closed_says_so_and_leaves_other_files_alone() -> None:
    process = Process()
    reactor = process.reactor
    asked: list[bool] = []

    def is_robbed() -> bool:
        asked.append(True)
        with process.lock:
            if reactor.has_descriptors():
                return False
            reactor.close()
        return True

    reactor.is_robbed = is_robbed
    assert reactor.has_descriptors()
    nothing = os.open("/dev/null", os.O_RDWR)
    numbers = list(reactor._marks)
    for number in numbers:
        os.dup2(nothing, number)
    assert not reactor.has_descriptors()
    assert reactor.lead(lambda: False, None, None) is False
    assert asked and reactor.closed
    reactor.release()
    for number in numbers:
        os.close(number)  # still open: nothing of the program's was closed
    for fd in (nothing, process.read, process.write):
        os.close(fd)


def test_a_watched_descriptor_that_was_closed_is_missed(process: Process) -> None:
    read, write = os.pipe()
    process.reactor.add(read, lambda: None)
    assert process.reactor.has_descriptors()
    os.close(read)
    assert not process.reactor.has_descriptors()
    process.reactor.remove(read)
    assert process.reactor.has_descriptors()
    os.close(write)


def test_the_background_thread_reads_on_when_memory_was_used_up_for_a_moment(
    process: Process, capfd: pytest.CaptureFixture[str]
) -> None:
    read, write = os.pipe()
    refusals = [MemoryError(), MemoryError()]
    heard = threading.Event()

    def hear() -> None:
        if refusals:
            raise refusals.pop()
        os.read(read, 1)
        heard.set()

    process.reactor.add(read, hear)
    process.reactor.start()
    os.write(write, b"x")
    assert heard.wait(60)
    assert capfd.readouterr().err == ""
    with process.lock:
        process.reactor.remove(read)
    os.close(read)
    os.close(write)


def test_a_process_that_can_read_nothing_for_want_of_memory_is_told(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise MemoryError

    told = threading.Event()
    monkeypatch.setattr(reactor_module, "_REFUSALS_MAX", 3)
    process.reactor.on_no_memory = told.set
    process.reactor.remove(process.read)
    process.reactor.add(process.read, refuse)
    process.reactor.start()
    os.write(process.write, b"x")
    assert told.wait(60)


def test_a_leader_that_waits_looks_around_now_and_then(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactor_module, "_LOOK_S", 0.0)
    looks: list[int] = []
    process.reactor.each_look = lambda: looks.append(1)
    process.reactor.lead(lambda: len(looks) > 1, None, None)
    assert len(looks) > 1
