"""The ring that processes share: order, limits, what is beside it, and who is told. In one process."""

from __future__ import annotations

import gc
import os
import select
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator

import pytest

from sundog.store import shared_ring
from sundog.store.shared_ring import (
    ASK,
    BESIDE,
    DONE,
    EMPTY,
    FULL,
    GETTERS,
    PUTTERS,
    THEIR_GETTERS,
    THEIR_PUTTERS,
    SharedRing,
    _Uncollected,
    hear,
    sealed,
)


@pytest.fixture
def ring() -> Iterator[SharedRing]:
    made = SharedRing.make(4, 256)
    yield made
    made.close()


def taken(ring: SharedRing) -> bytes:
    found = ring.get()
    assert isinstance(found, bytes)
    return found


def test_what_was_put_first_is_taken_first_however_often_the_ring_turns() -> None:
    ring = SharedRing.make(0, 128)
    put = got = 0
    for step in range(200):
        while ring.put(sealed(b"%d" % put + b"." * (step % 23))) == DONE:
            put += 1
        assert put > got
        for _ in range(1 + step % 3):
            if put > got:
                assert taken(ring).split(b".")[0] == b"%d" % got
                got += 1
    assert ring.size() == put - got
    ring.close()


def test_an_empty_ring_says_so(ring: SharedRing) -> None:
    assert ring.get() == EMPTY
    assert ring.size() == 0


def test_no_more_fit_than_the_limit_allows(ring: SharedRing) -> None:
    assert [ring.put(sealed(b"x")) for _ in range(5)] == [DONE] * 4 + [FULL]
    taken(ring)
    assert ring.put(sealed(b"y")) == DONE


def test_a_batch_is_put_whole_or_not_at_all(ring: SharedRing) -> None:
    assert ring.put_all([sealed(b"%d" % each) for each in range(3)]) == DONE
    assert ring.put_all([sealed(b"x"), sealed(b"y")]) == FULL
    assert ring.get_all(4) == EMPTY
    assert ring.get_all(2) == [b"0", b"1"]
    assert ring.put_all([sealed(bytes(100)), sealed(bytes(100))]) == ASK
    assert ring.size() == 1


def test_while_there_are_items_beside_it_only_the_maker_can_tell(ring: SharedRing) -> None:
    ring.put(sealed(b"a"))
    assert ring.add_beside()
    assert ring.size() == 2
    assert ring.put(sealed(b"c")) == ASK
    assert taken(ring) == b"a"
    assert ring.get() == ASK
    assert ring.move_in(sealed(b"b"))
    assert taken(ring) == b"b"
    assert ring.get() == EMPTY


def test_the_maker_takes_a_batch_from_both_places(ring: SharedRing) -> None:
    ring.put(sealed(b"a"))
    ring.add_beside(2)
    assert ring.get_all(2) == ASK
    assert ring.get_all(2, by_maker=True) == [b"a"]
    assert ring.words[BESIDE] == 1
    assert not ring.add_beside(4)


def test_calls_that_wait_at_the_maker_come_first(ring: SharedRing) -> None:
    ring.note(THEIR_PUTTERS, 1)
    assert ring.put(sealed(b"x")) == ASK
    assert ring.put(sealed(b"x"), by_maker=True) == DONE
    ring.note(THEIR_PUTTERS, -1)
    ring.note(THEIR_GETTERS, 1)
    assert ring.get() == ASK
    assert ring.get(by_maker=True) == b"x"
    assert ring.put(sealed(b"y")) == DONE
    assert os.read(ring.maker, 10) == b"x"


def test_a_waiter_is_told_once_it_is_worth_a_look(ring: SharedRing) -> None:
    assert ring.get(waits=True) == EMPTY
    assert ring.words[GETTERS] == 1
    ring.put(sealed(b"a"))
    assert os.read(ring.items, 10) == b"x"
    assert ring.get(waited=True) == b"a"
    assert ring.words[GETTERS] == 0
    for _ in range(4):
        ring.put(sealed(b"a"))
    assert ring.put(sealed(b"a"), waits=True) == FULL
    taken(ring)
    assert os.read(ring.room, 10) == b"x"
    assert ring.put(sealed(b"a"), waited=True) == DONE
    assert ring.words[PUTTERS] == 0
    hear(ring.room)  # nothing is there, and nobody waits


@pytest.mark.parametrize(("limit", "left"), [(1, 0), (8, 6), (100, 25)])
def test_writers_are_told_once_there_is_room_for_several(limit: int, left: int) -> None:
    ring = SharedRing.make(limit, 1 << 16)
    for _ in range(limit):
        assert ring.put(sealed(b"x")) == DONE
    assert ring.put(sealed(b"x"), waits=True) == FULL
    while not select.select([ring.room], [], [], 0)[0]:
        taken(ring)
    assert ring.size() == left
    ring.close()


@pytest.mark.parametrize("room_bytes", [0, 24])
def test_a_put_for_which_there_is_no_memory_raises_and_puts_nothing(room_bytes: int) -> None:
    """The limit of a file's size stands for memory that has run out; a child process is under it alone."""
    program = f"""
        import resource
        from sundog.store.shared_ring import DONE, SharedRing, sealed

        def limit(most):
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

        ring = SharedRing.make(0, 1024)
        limit(4096 + {room_bytes})
        try:
            ring.put(sealed(b"a" * 40))
        except OSError:
            assert ring.size() == 0
        else:
            raise SystemExit("it was put")
        limit(resource.RLIM_INFINITY)
        assert ring.put(sealed(b"b" * 40)) == DONE
        assert ring.get() == b"b" * 40
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


def test_memory_that_has_been_used_once_is_used_again_without_a_call() -> None:
    program = """
        import resource
        from sundog.store.shared_ring import DONE, SharedRing, sealed

        ring = SharedRing.make(0, 1024)
        for turn in range(3):
            for number in range(16):
                assert ring.put(sealed(b"%d" % number + b"." * 50)) == DONE
            assert [ring.get() for _ in range(16)] == [b"%d" % number + b"." * 50 for number in range(16)]
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))  # a call would fail
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


def test_no_finaliser_runs_while_a_step_has_the_lock() -> None:
    lock = _Uncollected()
    try:
        with lock:
            assert not gc.isenabled()
        assert gc.isenabled()
        with pytest.raises(OSError), lock:
            raise OSError
        assert gc.isenabled()
        gc.disable()
        with lock:
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_finaliser_may_put_into_the_ring_that_is_in_use(ring: SharedRing) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            ring.put(sealed(b"last"), by_maker=True)

    ring._mutex = _Uncollected()  # what Python 3.12 and later use; here on each
    old = gc.get_threshold()
    try:
        gc.set_threshold(1)
        for _ in range(200):
            Cycle()
            ring.put(sealed(b"first"), by_maker=True)
            while isinstance(ring.get(by_maker=True), bytes):
                pass
    finally:
        gc.set_threshold(*old)
        gc.collect()


# ---------------------------------------------------------------------- views of one ring
@pytest.fixture
def _many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_all(*steps: Callable[[], None]) -> None:
    threads = [threading.Thread(target=step) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def puts(view: SharedRing, name: str, count: int = 2000) -> None:
    for number in range(count):
        assert view.put(sealed(f"{name} {number}".encode())) == DONE


def all_of(ring: SharedRing) -> list[bytes]:
    found: list[bytes] = []
    while isinstance(each := ring.get(by_maker=True), bytes):
        found.append(each)
    return found


@pytest.mark.usefixtures("_many_switches")
def test_two_views_of_one_process_take_turns() -> None:
    ring = SharedRing.make(0, 1 << 20)
    one, other = SharedRing.open(ring.place()), SharedRing.open(ring.place())
    run_all(lambda: puts(one, "one"), lambda: puts(other, "other"))
    found = all_of(ring)
    assert len(found) == 4000 and len(set(found)) == 4000
    for view in (one, other, ring):
        view.close()


_OTHER_PROCESS = """
import sys
from sundog.store.shared_ring import DONE, RingPlace, SharedRing, sealed
ring = SharedRing.open(RingPlace(*map(int, sys.argv[1:])))
print("open", flush=True)
for number in range(4000):
    assert ring.put(sealed(f"far {number}".encode())) == DONE
"""


@pytest.mark.usefixtures("_many_switches")
def test_a_view_that_is_closed_costs_no_other_view_its_lock() -> None:
    ring = SharedRing.make(0, 1 << 20)
    place = ring.place()
    view = SharedRing.open(place)
    command = [sys.executable, "-c", _OTHER_PROCESS, *map(str, place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as far:
        assert far.stdout is not None and far.stdout.readline() == b"open\n"

        def come_and_go() -> None:
            while far.poll() is None:
                SharedRing.open(place)  # nobody holds it: it is closed at once

        run_all(lambda: puts(view, "near", 4000), come_and_go)
        assert far.wait(120) == 0
    found = all_of(ring)
    assert len(found) == 8000 and len(set(found)) == 8000
    view.close()
    ring.close()


def test_nothing_is_kept_of_a_ring_whose_views_are_gone() -> None:
    gc.collect()
    before = len(shared_ring._turns), len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        ring = SharedRing.make(0, 4096)
        SharedRing.open(ring.place()).put(sealed(b"a"))
        ring.close()
        ring.close()
    assert (len(shared_ring._turns), len(os.listdir("/proc/self/fd"))) == before


def test_threads_may_look_for_the_maker_at_the_same_time(
    ring: SharedRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_ring, "_LOOK_S", -1.0)  # each call looks
    other = SharedRing.open(ring.place())
    found: list[object] = []

    def look() -> None:
        try:
            found.append(any(other.is_over() for _ in range(10_000)))
        except RuntimeError as error:
            found.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert found == [False] * 4


def test_a_process_of_another_user_that_has_the_makers_number_is_not_opened(
    ring: SharedRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, uid = ring.place(), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(ProcessLookupError, match="another process"):
        SharedRing.open(place)


def test_a_child_that_is_forked_while_a_thread_is_in_a_step_can_use_the_ring(ring: SharedRing) -> None:
    view = SharedRing.open(ring.place())
    with view._mutex:
        child = os.fork()
        if not child:
            os._exit(0 if view.put(sealed(b"child")) == DONE else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ring.get(by_maker=True) == b"child"
    view.close()
