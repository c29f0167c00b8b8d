"""What a pool gives back, without a pool: refs whose values the test sets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing import TimeoutError
from typing import Any, cast

import pytest

import sundog
from sundog.exceptions import ActorDiedError, TaskCancelledError
from sundog.util.multiprocessing.calls import Failure
from sundog.util.multiprocessing.results import AsyncResult, Callbacks, IMapIterator, PoolTaskError, read


class FakeRef:
    """A ref whose value the test sets."""

    count = 0

    def __init__(self, *value: object) -> None:
        FakeRef.count += 1
        self.number = FakeRef.count
        self.made: Future[object] = Future()
        if value:
            self.set(value[0])

    def set(self, value: object) -> None:
        if isinstance(value, BaseException):
            self.made.set_exception(value)
        else:
            self.made.set_result(value)

    def binary(self) -> bytes:
        return self.number.to_bytes(8, "big")

    def future(self) -> Future[object]:
        return self.made


class FakePool:
    """A pool that has its thread for callbacks."""

    def __init__(self) -> None:
        self._callbacks = Callbacks()


class FakeCrew:
    """Two workers; what is ready is told in order, or as the test has set it."""

    size = 2

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.order: Callable[[list[bytes]], list[bytes]] = lambda oids: oids[:1]

    def ready(self, oids: list[bytes], _timeout_s: float | None, *, in_order: bool) -> list[bytes]:
        self.asked.append(in_order)
        return self.order(oids)


@pytest.fixture(autouse=True)
def verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """`get` and `wait` on these refs."""

    def get(refs: Any) -> Any:
        return [each.made.result(0) for each in refs] if isinstance(refs, list) else refs.made.result(0)

    def wait(refs: list[FakeRef], num_returns: int, timeout: float | None) -> Any:
        return [each for each in refs if each.made.done()], []

    monkeypatch.setattr(sundog, "get", get)
    monkeypatch.setattr(sundog, "wait", wait)


def result(*refs: FakeRef, **more: Any) -> AsyncResult[Any]:
    whole = more.pop("whole", [True] * len(refs))
    return AsyncResult(cast(Any, more.pop("pool", FakePool())), cast(Any, list(refs)), whole, **more)


def test_chunks_are_lists_of_results_and_single_values_are_results() -> None:
    refs: Any = [FakeRef([1, 2]), FakeRef([3])]
    assert read(refs, [True, False]) == [1, 2, [3]]


def test_a_chunk_whose_process_died_is_one_failure_among_the_results() -> None:
    refs: Any = [FakeRef([1]), FakeRef(TaskCancelledError())]
    first, second = read(refs, [True, True])
    assert first == 1 and isinstance(second, Failure) and isinstance(second.exception(), ActorDiedError)


def test_a_result_is_there_when_all_its_chunks_are() -> None:
    late = FakeRef()
    made = result(FakeRef([1]), late)
    assert not made.ready()
    with pytest.raises(ValueError, match="not ready"):
        made.successful()
    with pytest.raises(TimeoutError, match=r"within 0\.0 s"):
        made.get(timeout=0.0)
    late.set([2])
    assert made.ready() and made.successful() and made.get() == [1, 2] == made.get(timeout=1)


def test_a_single_result_is_no_list() -> None:
    assert result(FakeRef("one"), whole=[False], single=True).get() == "one"


def test_the_error_of_the_first_item_is_raised_whichever_came_first() -> None:
    made = result(FakeRef([1, Failure(KeyError("a"), "there")]), FakeRef([Failure(ValueError("b"))]))
    assert not made.successful()
    with pytest.raises(KeyError) as caught:
        made.get()
    assert "there" in str(caught.value.__cause__)


def test_a_callback_has_run_when_the_result_is_there() -> None:
    pool, ref, given = FakePool(), FakeRef(), list[object]()
    threads: list[threading.Thread] = []

    def callback(value: object) -> None:
        threads.append(threading.current_thread())
        given.append(value)

    made = result(ref, pool=pool, callback=callback)
    assert not made.ready()
    ref.set([1, 2])
    assert made.get() == [1, 2] and given == [[1, 2]]
    assert threads[0] is not threading.current_thread()
    pool._callbacks.join()


def test_an_error_goes_to_its_own_callback_and_a_callback_that_raises_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool, given = FakePool(), list[BaseException]()
    bad = result(FakeRef([1]), pool=pool, callback=lambda _value: 1 / 0)
    failed = result(FakeRef([Failure(KeyError("a"))]), pool=pool, error_callback=given.append)
    failed.wait()
    [error] = given
    assert isinstance(error, PoolTaskError) and isinstance(error.underlying, KeyError)
    assert bad.get() == [1] and "A callback given to a Pool raised" in caplog.text
    pool._callbacks.join()


def chunks(*values: object) -> tuple[Callable[[int], Any], list[int]]:
    """What submits chunks with these values, and how many were asked for."""
    left, asked = list(values), list[int]()

    def submit(most: int) -> Any:
        asked.append(most)
        taken, left[:] = left[:most], left[most:]
        return [(FakeRef(value), True) for value in taken]

    return submit, asked


def test_items_come_in_order_and_only_a_few_chunks_are_read_ahead() -> None:
    crew = FakeCrew()
    submit, asked = chunks(*([number] for number in range(100)))
    found: IMapIterator[int] = IMapIterator(None, cast(Any, crew), submit, True)
    assert asked == [4], "two for each worker"
    assert next(found) == 0 and sum(asked) < 100
    assert list(found) == list(range(1, 100)) and set(crew.asked) == {True}


def test_without_order_what_is_ready_first_is_given_first() -> None:
    crew = FakeCrew()
    crew.order = lambda oids: oids[-1:]
    submit, _ = chunks([1], [2], [3])
    found: IMapIterator[int] = IMapIterator(None, cast(Any, crew), submit, False)
    assert list(found) == [3, 2, 1] and set(crew.asked) == {False}


def test_an_item_that_failed_is_given_as_an_error_and_the_iteration_goes_on() -> None:
    submit, _ = chunks([1, Failure(KeyError("a")), 3])
    found: IMapIterator[object] = IMapIterator(None, cast(Any, FakeCrew()), submit, True)
    first, error, last = found
    assert (first, last) == (1, 3) and isinstance(error, PoolTaskError)


def test_a_result_that_does_not_come_in_time_is_a_timeout() -> None:
    crew = FakeCrew()
    crew.order = lambda _oids: []
    submit, _ = chunks([1])
    found: IMapIterator[int] = IMapIterator(None, cast(Any, crew), submit, True)
    with pytest.raises(TimeoutError, match=r"No result within 0\.5 s"):
        found.next(timeout=0.5)


def test_a_closed_pool_submits_all_that_is_left() -> None:
    submit, asked = chunks(*([number] for number in range(2000)))
    found: IMapIterator[int] = IMapIterator(None, cast(Any, FakeCrew()), submit, True)
    found.submit_all()
    before = len(asked)
    assert list(found) == list(range(2000)) and len(asked) == before
