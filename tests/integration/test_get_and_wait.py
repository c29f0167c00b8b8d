"""`get` and `wait`: order, errors, timeouts, duplicates, and many threads at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import GetTimeoutError

GET_S = 120


class Gate:
    """Tasks that end only when the test says so."""

    def __init__(self, ray: ModuleType, folder: Path) -> None:
        self._folder = folder

        @ray.remote(num_cpus=0)
        def pass_gate(path: str, value: Any) -> Any:
            import os

            while not os.path.exists(path):
                time.sleep(0.002)
            if isinstance(value, Exception):
                raise value
            return value

        self._task = pass_gate

    def task(self, name: str, value: Any = None) -> Any:
        """A task that returns (or raises) `value` once `open(name)` was called."""
        return self._task.remote(str(self._folder / name), value)

    def open(self, name: str) -> None:
        """Let a task end."""
        (self._folder / name).touch()


@pytest.fixture
def gate(ray: ModuleType, tmp_path: Path) -> Iterator[Gate]:
    yield Gate(ray, tmp_path)


# ---------------------------------------------------------------------- get
def test_get_of_a_list_keeps_its_order(ray: ModuleType, gate: Gate) -> None:
    refs = [gate.task("late", "a"), ray.put("b"), gate.task("early", "c")]
    gate.open("early")
    ray.wait([refs[2]], timeout=GET_S)
    gate.open("late")
    assert ray.get(refs, timeout=GET_S) == ["a", "b", "c"]


def test_get_of_an_empty_list_is_empty(ray: ModuleType) -> None:
    assert ray.get([]) == []


def test_get_of_the_same_ref_many_times_in_a_list(ray: ModuleType) -> None:
    ref = ray.put([1])
    found = ray.get([ref, ref, ref], timeout=GET_S)
    assert found == [[1], [1], [1]]
    assert found[0] is not found[1]


def test_get_raises_the_first_error_in_order(ray: ModuleType, gate: Gate) -> None:
    first, second = gate.task("first", KeyError("first")), gate.task("second", ValueError("second"))
    gate.open("second")
    ray.wait([second], timeout=GET_S)
    gate.open("first")
    with pytest.raises(KeyError, match="first"):
        ray.get([ray.put(0), first, second], timeout=GET_S)


def test_get_raises_an_error_before_later_refs_are_ready(ray: ModuleType, gate: Gate) -> None:
    failed, never = gate.task("failed", KeyError("k")), gate.task("never")
    gate.open("failed")
    with pytest.raises(KeyError):
        ray.get([failed, never], timeout=GET_S)
    gate.open("never")


def test_an_error_can_be_got_again_and_again(ray: ModuleType, gate: Gate) -> None:
    ref = gate.task("x", ValueError("again"))
    gate.open("x")
    for _ in range(3):
        with pytest.raises(ValueError, match="again"):
            ray.get(ref, timeout=GET_S)


def test_get_with_timeout_zero_raises_at_once_or_returns(ray: ModuleType, gate: Gate) -> None:
    assert ray.get(ray.put(1), timeout=0) == 1
    ref = gate.task("x", 2)
    with pytest.raises(GetTimeoutError) as caught:
        ray.get(ref, timeout=0)
    assert isinstance(caught.value, TimeoutError)
    assert ref.hex() in str(caught.value)
    gate.open("x")
    ray.wait([ref], timeout=GET_S)
    assert ray.get(ref, timeout=0) == 2


def test_get_with_a_timeout_gives_up_and_can_be_repeated(ray: ModuleType, gate: Gate) -> None:
    ref = gate.task("x", "late")
    for refs in (ref, [ray.put(1), ref]):
        with pytest.raises(GetTimeoutError):
            ray.get(refs, timeout=0.05)
    gate.open("x")
    assert ray.get(ref, timeout=GET_S) == "late"


def test_get_inside_a_task_times_out_there(ray: ModuleType, gate: Gate) -> None:
    @ray.remote
    def impatient(box: list[Any]) -> str:
        try:
            sundog.get(box[0], timeout=0.05)
        except sundog.exceptions.GetTimeoutError:
            return "gave up"
        return "got it"

    ref = gate.task("x")
    assert ray.get(impatient.remote([ref]), timeout=GET_S) == "gave up"
    gate.open("x")
    assert ray.get(impatient.remote([ref]), timeout=GET_S) in ("gave up", "got it")


# ---------------------------------------------------------------------- wait
def test_wait_returns_ready_and_rest_in_the_order_given(ray: ModuleType, gate: Gate) -> None:
    refs = [gate.task(str(n), n) for n in range(4)]
    gate.open("2")
    assert ray.wait(refs, timeout=GET_S) == ([refs[2]], [refs[0], refs[1], refs[3]])
    gate.open("0")
    assert ray.wait(refs, num_returns=2, timeout=GET_S) == ([refs[0], refs[2]], [refs[1], refs[3]])
    gate.open("1")
    gate.open("3")
    assert ray.wait(refs, num_returns=4, timeout=GET_S) == (refs, [])


def test_wait_returns_no_more_than_num_returns(ray: ModuleType) -> None:
    refs = [ray.put(n) for n in range(5)]
    ready, rest = ray.wait(refs, num_returns=2)
    assert (len(ready), len(rest)) == (2, 3)
    assert ready + rest == refs


def test_wait_that_times_out_returns_what_is_there(ray: ModuleType, gate: Gate) -> None:
    done, late = ray.put(1), gate.task("x")
    assert ray.wait([late, done], num_returns=2, timeout=0.05) == ([done], [late])
    assert ray.wait([late], timeout=0) == ([], [late])
    assert ray.wait([late, done], num_returns=2, timeout=0) == ([done], [late])
    gate.open("x")
    assert ray.wait([late], timeout=None) == ([late], [])


def test_wait_counts_a_failed_task_as_ready(ray: ModuleType, gate: Gate) -> None:
    ref = gate.task("x", ValueError("v"))
    gate.open("x")
    assert ray.wait([ref], timeout=GET_S) == ([ref], [])


@pytest.mark.parametrize("fetch_local", [True, False])
def test_wait_takes_fetch_local(ray: ModuleType, fetch_local: bool) -> None:
    @ray.remote
    def big() -> bytes:
        return b"x" * (1 << 20)

    ref = big.remote()
    assert ray.wait([ref], timeout=GET_S, fetch_local=fetch_local) == ([ref], [])


def test_wait_on_nothing_is_over_at_once(ray: ModuleType) -> None:
    assert ray.wait([]) == ([], [])
    assert ray.wait([], num_returns=3, timeout=0) == ([], [])


def test_wait_refuses_what_makes_no_sense(ray: ModuleType) -> None:
    ref = ray.put(1)
    with pytest.raises(ValueError, match="duplicates"):
        ray.wait([ref, ref])
    with pytest.raises(TypeError, match="list"):
        ray.wait(ref)
    with pytest.raises(TypeError, match="int"):
        ray.wait([ref, 3])
    for count in (0, -1, 2):
        with pytest.raises(ValueError, match="num_returns"):
            ray.wait([ref], num_returns=count)
    with pytest.raises(ValueError, match="negative"):
        ray.wait([ref], timeout=-1)


def test_wait_on_a_thousand_refs_drains_them_all(ray: ModuleType) -> None:
    @ray.remote
    def number(n: int) -> int:
        return n

    left = [number.remote(n) for n in range(1000)]
    seen = []
    while left:
        ready, left = ray.wait(left, num_returns=min(100, len(left)), timeout=GET_S)
        seen += ray.get(ready)
    assert sorted(seen) == list(range(1000))


def test_wait_inside_a_task_works_on_refs_of_the_driver(ray: ModuleType, gate: Gate) -> None:
    @ray.remote
    def first_of(box: list[Any]) -> Any:
        ready, rest = sundog.wait(box, num_returns=1, timeout=120)
        return sundog.get(ready[0]), len(rest)

    refs = [gate.task("never", "never"), gate.task("soon", "soon")]
    found = first_of.remote(refs)
    gate.open("soon")
    assert ray.get(found, timeout=GET_S) == ("soon", 1)
    gate.open("never")


# ---------------------------------------------------------------------- threads
def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work(n)` in `count` threads at once; their results, or the first error."""
    out: list[Any] = [None] * count
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait(120)
        try:
            out[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert not any(each.is_alive() for each in threads), "a thread hangs"
    if errors:
        raise errors[0]
    return out


def test_many_threads_get_their_own_refs_at_the_same_time(ray: ModuleType) -> None:
    @ray.remote
    def number(n: int) -> int:
        return n

    def work(thread: int) -> list[int]:
        return [ray.get(number.remote(thread * 1000 + n), timeout=GET_S) for n in range(60)]

    assert in_threads(8, work) == [[t * 1000 + n for n in range(60)] for t in range(8)]


def test_many_threads_get_lists_at_the_same_time(ray: ModuleType) -> None:
    @ray.remote
    def number(n: int) -> int:
        return n

    def work(thread: int) -> list[int]:
        found = []
        for round_number in range(10):
            refs = [number.remote(round_number * 20 + n) for n in range(20)]
            found += ray.get(refs, timeout=GET_S)
        return found

    assert in_threads(8, work) == [list(range(200))] * 8


def test_many_threads_get_the_same_ref(ray: ModuleType, gate: Gate) -> None:
    ref = gate.task("x", "shared")
    opened = threading.Timer(0.05, gate.open, ("x",))
    opened.start()
    assert in_threads(10, lambda _: ray.get(ref, timeout=GET_S)) == ["shared"] * 10
    opened.join()


def test_many_threads_get_the_same_ref_without_a_timeout(ray: ModuleType, gate: Gate) -> None:
    ref = gate.task("x", "shared")
    opened = threading.Timer(0.05, gate.open, ("x",))
    opened.start()
    assert in_threads(10, lambda _: ray.get(ref)) == ["shared"] * 10
    opened.join()


def test_threads_that_wait_and_threads_that_get_do_not_starve_each_other(ray: ModuleType, gate: Gate) -> None:
    @ray.remote
    def number(n: int) -> int:
        return n

    slow = [gate.task(str(n), n) for n in range(4)]

    def work(thread: int) -> Any:
        if thread < 4:
            ready, _ = ray.wait([slow[thread]], timeout=GET_S)
            return ray.get(ready[0])
        out = [ray.get(number.remote(n)) for n in range(50)]
        gate.open(str(thread - 4))
        return sum(out)

    assert in_threads(8, work) == [0, 1, 2, 3] + [sum(range(50))] * 4


def test_a_short_timeout_in_one_thread_does_not_end_the_get_of_another(ray: ModuleType, gate: Gate) -> None:
    ref = gate.task("x", "there")

    def work(thread: int) -> Any:
        if thread == 0:
            with pytest.raises(GetTimeoutError):
                ray.get(ref, timeout=0.05)
            gate.open("x")
            return "gave up"
        return ray.get(ref, timeout=GET_S)

    assert in_threads(4, work) == ["gave up", "there", "there", "there"]


def test_a_get_is_woken_when_another_thread_shuts_down(ray: ModuleType, gate: Gate) -> None:
    ref = gate.task("never")

    def work(thread: int) -> Any:
        if thread < 3:
            # One that comes too late to be woken is told that there is no session.
            with pytest.raises(sundog.exceptions.RayError, match=r"shut down|not running"):
                ray.get(ref, timeout=GET_S)
        else:
            time.sleep(0.05)  # into their gets; the test holds either way
            ray.shutdown()

    in_threads(4, work)


def test_a_task_that_waits_for_a_future_lends_its_cpu(ray_session: Any) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def inner() -> int:
        return 9

    @ray.remote
    def outer() -> Any:
        return inner.remote().future().result()

    assert ray.get(outer.remote(), timeout=120) == 9
