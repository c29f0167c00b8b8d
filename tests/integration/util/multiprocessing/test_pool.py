"""Pool: the standard library's interface and promises, on workers of the session."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
from types import ModuleType
from typing import Any

import pytest

from sundog.exceptions import ActorDiedError
from sundog.util.multiprocessing import Pool, TimeoutError
from sundog.util.multiprocessing.results import AsyncResult, PoolTaskError


def test_apply_passes_arguments_and_gives_the_result(ray: ModuleType) -> None:
    with Pool(2) as pool:
        assert pool.apply(lambda a, b, c=0: (a, b, c), (1, 2), {"c": 3}) == (1, 2, 3)
        assert pool.apply(lambda: "nothing") == "nothing"


def test_map_gives_the_list_of_results_in_order(ray: ModuleType) -> None:
    with Pool(2) as pool:
        assert pool.map(lambda x: x * x, range(50)) == [x * x for x in range(50)]
        assert pool.map(lambda x: x * x, iter(range(7)), chunksize=3) == [x * x for x in range(7)]
        assert pool.map(lambda x: x, []) == []


def test_starmap_unpacks_each_item(ray: ModuleType) -> None:
    with Pool(2) as pool:
        assert pool.starmap(lambda a, b: a - b, [(3, 1), (10, 4)]) == [2, 6]
        assert pool.starmap_async(lambda a, b: a + b, zip("ab", "cd")).get() == ["ac", "bd"]


def test_the_processes_are_others_than_the_driver(ray: ModuleType) -> None:
    with Pool(2) as pool:
        pids = set(pool.map(lambda _: os.getpid(), range(20), chunksize=1))
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2


def test_imap_gives_results_in_order_from_an_endless_source(ray: ModuleType) -> None:
    with Pool(2) as pool:
        results = pool.imap(lambda x: x + 1, itertools.count())
        assert [next(results) for _ in range(20)] == list(range(1, 21))


def test_imap_unordered_gives_every_result_once(ray: ModuleType) -> None:
    with Pool(2) as pool:
        assert sorted(pool.imap_unordered(lambda x: 2 * x, range(31), chunksize=4)) == list(range(0, 62, 2))


def test_imap_unordered_does_not_wait_for_a_slow_item(ray: ModuleType) -> None:
    from sundog.util.queue import Queue

    gate = Queue()

    def work(item: str) -> str:
        if item == "slow":
            gate.get()
        return item

    with Pool(2) as pool:
        results = pool.imap_unordered(work, ["slow", "fast"])
        assert results.next(timeout=120) == "fast"
        with pytest.raises(TimeoutError):
            results.next(timeout=0.01)
        gate.put("go")
        assert results.next(timeout=120) == "slow"
        with pytest.raises(StopIteration):
            results.next()


def test_imap_gives_the_error_of_a_bad_item_in_its_place_and_goes_on(ray: ModuleType) -> None:
    with Pool(2) as pool:
        results = pool.imap(lambda x: 10 // x, [5, 0, 2])
        assert next(results) == 2
        bad = next(results)
        assert isinstance(bad, PoolTaskError) and isinstance(bad.underlying, ZeroDivisionError)
        assert next(results) == 5


def test_an_exception_arrives_as_itself_with_the_remote_traceback(ray: ModuleType) -> None:
    def look_up(key: str) -> None:
        raise KeyError(key)

    with Pool(1) as pool:
        with pytest.raises(KeyError) as caught:
            pool.apply(look_up, ("missing",))
        assert caught.value.args == ("missing",)
        assert "look_up" in str(caught.value.__cause__)
        with pytest.raises(KeyError):
            pool.map(look_up, ["a", "b"])


def test_map_raises_the_error_of_the_first_bad_item(ray: ModuleType) -> None:
    def fail(x: int) -> None:
        raise ValueError(x)

    with Pool(4) as pool, pytest.raises(ValueError) as caught:
        pool.map(fail, range(8), chunksize=1)
    assert caught.value.args == (0,)


def test_async_results_tell_whether_they_are_ready(ray: ModuleType) -> None:
    from sundog.util.queue import Queue

    gate = Queue()
    with Pool(1) as pool:
        result = pool.apply_async(gate.get)
        assert isinstance(result, AsyncResult)
        assert not result.ready()
        with pytest.raises(ValueError, match="not ready"):
            result.successful()
        with pytest.raises(multiprocessing.TimeoutError):
            result.get(timeout=0.01)
        gate.put("value")
        result.wait(timeout=120)
        assert result.ready() and result.successful()
        assert result.get() == "value"
        failed = pool.apply_async(lambda: 1 // 0)
        failed.wait()
        assert not failed.successful()


def test_callbacks_get_the_result_or_the_error_before_get_returns(ray: ModuleType) -> None:
    seen: list[Any] = []
    with Pool(2) as pool:
        pool.apply_async(lambda: 5, callback=seen.append).get()
        assert seen == [5]
        pool.map_async(lambda x: -x, [1, 2], callback=seen.append).get()
        assert seen[1:] == [[-1, -2]]
        pool.starmap_async(lambda a, b: a * b, [(2, 3)], callback=seen.append).get()
        assert seen[2:] == [[6]]
        failed = pool.map_async(lambda x: 1 // x, [1, 0], error_callback=seen.append)
        with pytest.raises(ZeroDivisionError):
            failed.get()
        assert isinstance(seen[3], PoolTaskError) and isinstance(seen[3].underlying, ZeroDivisionError)


def test_a_callback_that_raises_does_not_stop_the_pool(ray: ModuleType) -> None:
    def bad(_: object) -> None:
        raise RuntimeError("callback")

    with Pool(1) as pool:
        assert pool.apply_async(lambda: 1, callback=bad).get() == 1
        assert pool.apply(lambda: 2) == 2


def test_a_callback_may_submit_more(ray: ModuleType) -> None:
    chained = threading.Event()
    with Pool(1) as pool:

        def more(value: int) -> None:
            pool.apply_async(lambda: value + 1, callback=lambda _: chained.set())

        pool.apply_async(lambda: 1, callback=more)
        assert chained.wait(120)


def test_the_initializer_runs_once_in_each_process(ray: ModuleType) -> None:
    def prepare(value: str) -> None:
        os.environ["POOL_TEST"] = os.environ.get("POOL_TEST", "") + value

    with Pool(2, initializer=prepare, initargs=("ready",)) as pool:
        assert set(pool.map(lambda _: os.environ["POOL_TEST"], range(8), chunksize=1)) == {"ready"}


def test_an_initializer_that_fails_fails_the_constructor(ray: ModuleType) -> None:
    def prepare() -> None:
        raise OSError("no data")

    with pytest.raises(ray.exceptions.RayActorError, match="no data"):
        Pool(1, initializer=prepare)


def test_maxtasksperchild_replaces_processes(ray: ModuleType) -> None:
    with Pool(1, maxtasksperchild=2) as pool:
        pids = pool.map(lambda _: os.getpid(), range(6), chunksize=1)
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 2, 2]


def test_a_process_that_dies_fails_its_chunk_and_is_replaced(ray: ModuleType) -> None:
    with Pool(1) as pool:
        died = pool.apply_async(os._exit, (3,))
        behind = pool.apply_async(lambda: "behind")
        with pytest.raises(ray.exceptions.RayActorError):
            died.get()
        assert behind.get() == "behind"
        assert pool.apply(lambda: "after") == "after"


def test_arguments_that_cannot_be_pickled_fail_their_own_call(ray: ModuleType) -> None:
    with Pool(1) as pool:
        with pytest.raises(Exception, match=r"pickle|serializ"):
            pool.apply(lambda lock: lock, (threading.Lock(),))
        assert pool.apply(lambda: 1) == 1


def test_a_closed_pool_finishes_its_work_and_takes_no_more(ray: ModuleType) -> None:
    pool = Pool(2)
    result = pool.map_async(lambda x: x, range(10))
    lazily = pool.imap(lambda x: x, range(40))
    with pytest.raises(ValueError, match="still running"):
        pool.join()
    pool.close()
    for refused in (
        lambda: pool.apply(len, ("a",)),
        lambda: pool.map(len, ["a"]),
        lambda: pool.imap(len, ["a"]),
        lambda: pool.__enter__(),
    ):
        with pytest.raises(ValueError, match="not running"):
            refused()
    pool.join()
    assert result.get() == list(range(10))
    assert list(lazily) == list(range(40))


def test_a_terminated_pool_answers_what_was_outstanding_with_an_error(ray: ModuleType) -> None:
    from sundog.util.queue import Queue

    gate = Queue()
    pool = Pool(1)
    stuck = [pool.apply_async(gate.get) for _ in range(3)]
    pool.terminate()
    pool.join()
    for result in stuck:
        with pytest.raises(ActorDiedError, match="terminated"):
            result.get(timeout=120)


def test_impossible_numbers_of_processes_are_refused(ray: ModuleType) -> None:
    for wrong in (0, -1, 1000):
        with pytest.raises(ValueError):
            Pool(wrong)
    with pytest.raises(ValueError):
        Pool(1, maxtasksperchild=0)
    with Pool(1) as pool, pytest.raises(ValueError):
        pool.map(len, ["a"], chunksize=0)


def test_by_default_there_is_a_process_per_cpu(ray: ModuleType) -> None:
    with Pool() as pool:
        assert pool._crew.size == int(ray.cluster_resources()["CPU"])


def test_remote_args_reach_the_processes(ray: ModuleType) -> None:
    with Pool(1, ray_remote_args={"num_cpus": 1}) as pool:
        assert pool.apply(lambda: ray.get_runtime_context().get_assigned_resources()["CPU"]) == 1


def _pids(pool: Pool) -> set[int]:
    return set(pool.map(lambda _: os.getpid(), range(20), chunksize=1))


def test_a_pool_gives_its_processes_to_the_next_one(ray: ModuleType) -> None:
    with Pool(2) as pool:
        first = _pids(pool)
    with Pool(2) as pool:
        assert _pids(pool) & first


def test_processes_that_an_initializer_has_prepared_serve_no_other_pool(ray: ModuleType) -> None:
    pool = Pool(1, initializer=os.putenv, initargs=("POOL_TEST", "1"))
    first = _pids(pool)
    pool.close()
    pool.join()
    with Pool(1) as pool:
        assert not _pids(pool) & first


def test_a_slow_item_holds_up_none_of_many_short_ones(ray: ModuleType) -> None:
    from sundog.util.queue import Queue

    gate = Queue()

    def work(item: int) -> int:
        return int(gate.get()) if item == 150 else item

    with Pool(2) as pool:
        results = pool.imap_unordered(work, range(400))
        assert {results.next(timeout=120) for _ in range(399)} == {*range(400)} - {150}
        gate.put(-1)
        assert list(results) == [-1]


def test_imap_reads_little_more_items_than_results_were_taken(ray: ModuleType) -> None:
    read = itertools.count()
    source = iter(lambda: next(read), -1)
    with Pool(2) as pool:
        results = pool.imap(lambda x: x, source)
        for _ in range(10):
            next(results)
    assert next(read) <= 10 * 4 + 8


def test_an_item_that_is_a_ref_arrives_as_a_ref(ray: ModuleType) -> None:
    ref = ray.put("value")
    with Pool(1) as pool:
        assert list(pool.imap(ray.get, [ref])) == ["value"]
        assert pool.map(ray.get, [ref, ref]) == ["value", "value"]
        assert pool.apply(ray.get, (ref,)) == "value"


def test_a_process_that_dies_among_short_items_costs_few_of_them(ray: ModuleType) -> None:
    def work(item: int) -> int:
        if item == 100:
            os._exit(3)
        return item

    with Pool(2) as pool:
        results = list(pool.imap_unordered(work, range(300)))
    failed = [each for each in results if isinstance(each, PoolTaskError)]
    assert len(results) == 300
    assert failed and all(isinstance(each.underlying, ActorDiedError) for each in failed)
    assert len(failed) < 150


def test_a_function_sees_a_global_that_was_changed_between_two_calls(ray: ModuleType) -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "value": 1}
    exec("def look(): return value", scope)
    with Pool(1) as pool:
        assert pool.apply(scope["look"]) == 1
        scope["value"] = 2
        assert pool.apply(scope["look"]) == 2


def test_a_pool_that_nobody_holds_gives_its_processes_back(ray: ModuleType) -> None:
    from sundog.util.queue import Queue

    gate = Queue()
    Pool(2, ray_remote_args={"num_cpus": 1})
    # Both CPUs were held by the pool: this runs when they are free again.
    ray.get(ray.remote(num_cpus=2)(lambda: gate.put(1)).remote(), timeout=120)
    assert gate.get() == 1


def test_a_pool_within_a_task_works(ray: ModuleType) -> None:
    def outer() -> list[int]:
        with Pool(2) as pool:
            return pool.map(abs, [-1, -2, -3])

    assert ray.get(ray.remote(outer).remote(), timeout=120) == [1, 2, 3]
