"""Tasks as their users see them: arguments, results, options, retries, and tasks within tasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.exceptions import RayTaskError, WorkerCrashedError
from sundog.state import backoff
from tests.integration.gates import await_true

GET_S = 120


# ---------------------------------------------------------------------- arguments
def test_positional_keyword_and_default_arguments_arrive(ray: ModuleType) -> None:
    @ray.remote
    def show(a: int, b: int = 2, *rest: int, c: int = 3, **others: int) -> tuple[Any, ...]:
        return a, b, rest, c, others

    refs = [
        show.remote(1),
        show.remote(1, 5),
        show.remote(1, b=6),
        show.remote(1, 2, 3, 4, c=9, z=10),
        show.remote(a=7, c=8),
    ]
    assert ray.get(refs, timeout=GET_S) == [
        (1, 2, (), 3, {}),
        (1, 5, (), 3, {}),
        (1, 6, (), 3, {}),
        (1, 2, (3, 4), 9, {"z": 10}),
        (7, 2, (), 8, {}),
    ]


def test_wrong_arguments_raise_a_type_error(ray: ModuleType) -> None:
    @ray.remote
    def one(a: int) -> int:
        return a

    with pytest.raises(TypeError, match="missing a required argument"):
        one.remote()
    with pytest.raises(TypeError, match="too many positional arguments"):
        one.remote(1, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        one.remote(1, z=2)


def test_top_level_refs_are_resolved_and_nested_ones_stay_refs(ray: ModuleType) -> None:
    @ray.remote
    def look(a: Any, inside: list[Any], *, named: Any) -> tuple[Any, ...]:
        assert isinstance(inside[0], sundog.ObjectRef)
        return a, named, sundog.get(inside[0])

    ref = ray.put("seven")
    assert ray.get(look.remote(ref, [ref], named=ref), timeout=GET_S) == ("seven", "seven", "seven")


def test_the_same_ref_given_twice_resolves_twice(ray: ModuleType) -> None:
    @ray.remote
    def add(a: int, b: int, c: int) -> int:
        return a * 100 + b * 10 + c

    one, two = ray.put(1), ray.put(2)
    assert ray.get(add.remote(one, two, c=one), timeout=GET_S) == 121


def test_a_chain_of_tasks_passes_results_along(ray: ModuleType) -> None:
    @ray.remote
    def increment(x: int) -> int:
        return x + 1

    ref = increment.remote(0)
    for _ in range(199):
        ref = increment.remote(ref)
    assert ray.get(ref, timeout=GET_S) == 200


def test_a_failed_dependency_fails_the_task_with_the_same_error(ray: ModuleType, tmp_path: Path) -> None:
    trace = tmp_path / "ran"

    @ray.remote
    def fail() -> None:
        raise KeyError("lost")

    @ray.remote
    def use(_: Any) -> None:
        trace.touch()

    chained = use.remote(use.remote(fail.remote()))
    with pytest.raises(KeyError, match="lost") as caught:
        ray.get(chained, timeout=GET_S)
    assert isinstance(caught.value, RayTaskError)
    assert not trace.exists()


# ---------------------------------------------------------------------- results
def test_num_returns_zero_gives_no_ref(ray: ModuleType, tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    @ray.remote(num_returns=0)
    def quiet() -> None:
        marker.touch()

    assert quiet.remote() is None
    await_true(marker.exists, "the task without results")


@pytest.mark.parametrize("count", [2, 3, 10])
def test_num_returns_splits_a_result_into_refs(ray: ModuleType, count: int) -> None:
    @ray.remote(num_returns=count)
    def several() -> Any:
        return tuple(range(count))

    refs = several.remote()
    assert len(refs) == count
    assert ray.get(refs, timeout=GET_S) == list(range(count))
    assert ray.get(refs[1], timeout=GET_S) == 1


def test_num_returns_one_leaves_a_tuple_alone(ray: ModuleType) -> None:
    @ray.remote
    def pair() -> tuple[int, int]:
        return 1, 2

    assert ray.get(pair.remote(), timeout=GET_S) == (1, 2)
    first, second = pair.options(num_returns=2).remote()
    assert ray.get([first, second], timeout=GET_S) == [1, 2]


@pytest.mark.parametrize("returned", [(1, 2), (1, 2, 3, 4), (), 5, None])
def test_a_wrong_number_of_results_fails_every_ref(ray: ModuleType, returned: Any) -> None:
    @ray.remote(num_returns=3)
    def three() -> Any:
        return returned

    refs = three.remote()
    for ref in refs:
        kind = ValueError if isinstance(returned, tuple) else TypeError
        with pytest.raises(kind, match="num_returns=3"):
            ray.get(ref, timeout=GET_S)


def test_a_generator_gives_as_many_results_as_are_wanted(ray: ModuleType) -> None:
    @ray.remote(num_returns=2)
    def count(last: int) -> Iterator[int]:
        yield from range(last)
        raise TypeError("its own")

    assert ray.get(count.remote(3), timeout=GET_S) == [0, 1]
    first, second = count.remote(1)
    assert ray.get(first, timeout=GET_S) == 0
    with pytest.raises(TypeError, match="its own"):
        ray.get(second, timeout=GET_S)


def test_a_task_with_several_results_that_fails_fails_them_all(ray: ModuleType) -> None:
    @ray.remote(num_returns=2)
    def fail() -> Any:
        raise ZeroDivisionError("no")

    for ref in fail.remote():
        with pytest.raises(ZeroDivisionError):
            ray.get(ref, timeout=GET_S)


# ---------------------------------------------------------------------- options
def test_options_do_not_change_the_function_they_come_from(ray: ModuleType) -> None:
    @ray.remote
    def pair() -> tuple[int, int]:
        return 1, 2

    pair.options(num_returns=2, name="other")
    assert ray.get(pair.remote(), timeout=GET_S) == (1, 2)


def test_the_name_option_is_what_the_task_is_called(ray: ModuleType) -> None:
    @ray.remote
    def who() -> str | None:
        return str(sundog.get_runtime_context().get_task_name())

    assert "who" in ray.get(who.remote(), timeout=GET_S)
    assert ray.get(who.options(name="baker").remote(), timeout=GET_S) == "baker"

    @ray.remote(name="smith")
    def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="smith"):
        ray.get(fail.remote(), timeout=GET_S)


def test_num_cpus_bounds_how_many_run_at_once(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(num_cpus=2)
    def meet(number: int) -> int:
        # Each leaves a file while it runs; with 4 CPUs there are never more than two of them.
        (tmp_path / str(number)).touch()
        try:
            return len(list(tmp_path.iterdir()))
        finally:
            (tmp_path / str(number)).unlink()

    assert max(ray.get([meet.remote(n) for n in range(50)], timeout=GET_S)) <= 2


def test_a_custom_resource_is_needed_and_given_back(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=4, resources={"printer": 1})

    @ray.remote(resources={"printer": 1})
    def use() -> dict[str, float]:
        return dict(sundog.get_runtime_context().get_assigned_resources())

    for given in ray.get([use.remote() for _ in range(3)], timeout=GET_S):
        assert given["printer"] == 1
    assert ray.available_resources()["printer"] == 1


# ---------------------------------------------------------------------- retries
def _count(folder: Path) -> int:
    """Count this call in a file that outlives the process; the number before it."""
    with open(folder / "count", "ab") as file:
        file.write(b"x")
    return (folder / "count").stat().st_size - 1


def test_a_crashed_worker_is_retried_and_the_attempt_is_visible(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=2)
    def crash_twice() -> int:
        if _count(tmp_path) < 2:
            os._exit(3)
        return _attempt()

    assert ray.get(crash_twice.remote(), timeout=GET_S) == 2


def _attempt() -> int:
    return sundog.get_runtime_context().get_attempt_number()


def test_retries_run_out_with_the_cause_of_the_last_crash(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=1)
    def crash() -> None:
        _count(tmp_path)
        os._exit(7)

    with pytest.raises(WorkerCrashedError, match="code 7") as caught:
        ray.get(crash.remote(), timeout=GET_S)
    assert (tmp_path / "count").stat().st_size == 2
    assert caught.value.exit_code == 7


def test_max_retries_zero_runs_the_body_once(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=0)
    def crash() -> None:
        _count(tmp_path)
        os._exit(1)

    with pytest.raises(WorkerCrashedError):
        ray.get(crash.remote(), timeout=GET_S)
    assert (tmp_path / "count").stat().st_size == 1


def test_an_exception_is_not_retried_by_default(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def fail() -> None:
        _count(tmp_path)
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"):
        ray.get(fail.remote(), timeout=GET_S)
    assert (tmp_path / "count").stat().st_size == 1


def test_retry_exceptions_true_retries_any_exception(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote(max_retries=3, retry_exceptions=True)
    def fail_thrice() -> int:
        if _count(tmp_path) < 3:
            raise ValueError("again")
        return _attempt()

    assert ray.get(fail_thrice.remote(), timeout=GET_S) == 3


def test_retry_exceptions_list_retries_only_what_it_names(ray: ModuleType, tmp_path: Path) -> None:
    class Passing(Exception):
        pass

    class Worse(Passing):
        pass

    @ray.remote(max_retries=5, retry_exceptions=[Passing, OSError])
    def fail(kinds: list[type[Exception]]) -> int:
        number = _count(tmp_path)
        if number < len(kinds):
            raise kinds[number](f"number {number}")
        return number

    assert ray.get(fail.remote([Passing, Worse, FileNotFoundError]), timeout=GET_S) == 3
    (tmp_path / "count").unlink()
    with pytest.raises(KeyError, match="number 1"):
        ray.get(fail.remote([Passing, KeyError]), timeout=GET_S)
    assert (tmp_path / "count").stat().st_size == 2


def test_max_retries_minus_one_goes_on_for_ever(
    ray: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = backoff.Schedule(free=0, base_s=0.0, cap_s=0.0)
    monkeypatch.setitem(backoff.SCHEDULES, backoff.EXCEPTION, at_once)

    @ray.remote(max_retries=-1, retry_exceptions=True)
    def fail_often() -> int:
        if _count(tmp_path) < 25:
            raise ValueError("again")
        return _attempt()

    assert ray.get(fail_often.remote(), timeout=GET_S) == 25


def test_retries_of_a_task_find_its_arguments_again(ray: ModuleType, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")

    @ray.remote(max_retries=2)
    def total(array: Any, extra: list[Any]) -> float:
        if _count(tmp_path) < 2:
            os._exit(1)
        return float(array.sum()) + float(sundog.get(extra[0]))

    array = numpy.ones(1 << 17)
    ref = total.remote(ray.put(array), [ray.put(5)])
    del array
    assert ray.get(ref, timeout=GET_S) == (1 << 17) + 5


# ---------------------------------------------------------------------- max_calls
def test_max_calls_replaces_the_process(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote(max_calls=2)
    def pid() -> int:
        return os.getpid()

    pids = ray.get([pid.remote() for _ in range(6)], timeout=GET_S)
    assert len(set(pids)) == 3
    assert all(pids.count(each) == 2 for each in set(pids))


def test_max_calls_one_gives_every_task_its_own_process(ray: ModuleType) -> None:
    @ray.remote(max_calls=1)
    def pid() -> int:
        return os.getpid()

    assert len(set(ray.get([pid.remote() for _ in range(6)], timeout=GET_S))) == 6


def test_an_actor_is_never_placed_in_a_process_that_max_calls_is_about_to_end(ray: ModuleType) -> None:
    @ray.remote(max_calls=1)
    def once() -> int:
        return os.getpid()

    @ray.remote
    class Guest:
        def pid(self) -> int:
            return os.getpid()

    for _ in range(5):
        host = ray.get(once.remote(), timeout=GET_S)
        guest = Guest.remote()
        assert ray.get([guest.pid.remote(), guest.pid.remote()], timeout=GET_S)[1] != host


def test_results_of_a_process_that_max_calls_ended_stay_readable(ray: ModuleType) -> None:
    numpy = pytest.importorskip("numpy")

    @ray.remote(max_calls=1)
    def make(number: int) -> Any:
        return numpy.full(1 << 17, number)

    refs = [make.remote(n) for n in range(4)]
    assert [int(each[-1]) for each in ray.get(refs, timeout=GET_S)] == [0, 1, 2, 3]
    assert [int(each[0]) for each in ray.get(refs, timeout=GET_S)] == [0, 1, 2, 3]


# ---------------------------------------------------------------------- definitions and closures
def test_a_redefined_function_runs_as_last_defined(ray: ModuleType) -> None:
    answers = []
    for version in range(5):

        @ray.remote
        def answer(bound: int = version) -> int:
            return bound

        answers.append(answer.remote())
    assert ray.get(answers, timeout=GET_S) == [0, 1, 2, 3, 4]


def test_a_remote_function_serves_session_after_session(ray_session: Callable[..., ModuleType]) -> None:
    @sundog.remote
    def six() -> int:
        return 6

    for _ in range(2):
        ray = ray_session(num_cpus=1)
        assert ray.get(six.remote(), timeout=GET_S) == 6
        ray.shutdown()


def test_a_closure_may_hold_a_ref(ray: ModuleType) -> None:
    numpy = pytest.importorskip("numpy")

    def define() -> Any:
        big, small = ray.put(numpy.arange(1 << 17)), ray.put("small")

        @ray.remote
        def look(position: int) -> tuple[int, str]:
            return int(sundog.get(big)[position]), sundog.get(small)

        return look

    look = define()
    assert ray.get([look.remote(n) for n in range(10)], timeout=GET_S) == [(n, "small") for n in range(10)]
    ray.put(numpy.zeros(1 << 17))
    assert ray.get(look.remote(99), timeout=GET_S) == (99, "small")


def test_lambdas_partials_and_callables_can_be_remote(ray: ModuleType) -> None:
    import functools
    import operator

    assert ray.get(ray.remote(lambda x: x + 1).remote(1), timeout=GET_S) == 2
    assert ray.get(ray.remote(functools.partial(pow, 2)).remote(5), timeout=GET_S) == 32
    assert ray.get(ray.remote(operator.add).remote(2, 3), timeout=GET_S) == 5


def test_a_remote_function_can_be_an_argument(ray: ModuleType) -> None:
    @ray.remote
    def double(x: int) -> int:
        return 2 * x

    @ray.remote
    def apply(function: Any, x: int) -> int:
        return int(sundog.get(function.remote(x)))

    assert ray.get(apply.remote(double, 21), timeout=GET_S) == 42


# ---------------------------------------------------------------------- tasks in tasks
def test_tasks_submit_tasks_deeper_than_there_are_cpus(ray: ModuleType) -> None:
    @ray.remote
    def dive(depth: int) -> int:
        return depth if depth == 0 else int(sundog.get(dive.remote(depth - 1))) + 1

    assert ray.get(dive.remote(10), timeout=GET_S) == 10


def test_a_recursive_task_branches_on_one_cpu(ray_session: Callable[..., ModuleType]) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def fib(n: int) -> int:
        if n < 2:
            return n
        return sum(sundog.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert ray.get(fib.remote(6), timeout=GET_S) == 8


def test_an_error_in_a_nested_task_reaches_the_driver(ray: ModuleType) -> None:
    @ray.remote
    def inner() -> None:
        raise LookupError("down below")

    @ray.remote
    def outer() -> None:
        sundog.get(inner.remote())

    with pytest.raises(LookupError, match="down below"):
        ray.get(outer.remote(), timeout=GET_S)


def test_a_task_may_return_the_ref_of_another(ray: ModuleType) -> None:
    @ray.remote
    def inner() -> str:
        return "inner"

    @ray.remote
    def outer() -> Any:
        return inner.remote()

    assert ray.get(ray.get(outer.remote(), timeout=GET_S), timeout=GET_S) == "inner"


# ---------------------------------------------------------------------- many
def test_many_tasks_all_finish_with_their_own_result(ray: ModuleType) -> None:
    @ray.remote
    def square(x: int) -> int:
        return x * x

    refs = [square.remote(n) for n in range(5000)]
    assert ray.get(refs, timeout=60) == [n * n for n in range(5000)]


def test_tasks_may_be_submitted_from_several_threads_at_once(ray: ModuleType) -> None:
    @ray.remote
    def tag(thread: int, number: int) -> tuple[int, int]:
        return thread, number

    out: dict[int, list[tuple[int, int]]] = {}

    def work(thread: int) -> None:
        refs = []
        for number in range(300):
            refs.append(tag.remote(thread, number))
            if number % 50 == 0:
                assert ray.get(refs[-1], timeout=GET_S) == (thread, number)
        out[thread] = ray.get(refs, timeout=GET_S)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert out == {thread: [(thread, number) for number in range(300)] for thread in range(6)}


def test_threads_inside_a_task_may_submit_tasks(ray: ModuleType) -> None:
    @ray.remote
    def leaf(n: int) -> int:
        return n + 1

    @ray.remote
    def spread() -> list[int]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda n: int(sundog.get(leaf.remote(n))), range(40)))

    assert ray.get(spread.remote(), timeout=GET_S) == list(range(1, 41))


# ---------------------------------------------------------------------- runtime context
def test_the_runtime_context_tells_a_task_where_it_is(ray: ModuleType) -> None:
    @ray.remote
    def facts() -> dict[str, Any]:
        context = sundog.get_runtime_context()
        return {
            "task": context.get_task_id(),
            "job": context.get_job_id(),
            "node": context.get_node_id(),
            "worker": context.get_worker_id(),
            "actor": context.get_actor_id(),
            "namespace": context.namespace,
        }

    here = ray.get_runtime_context()
    ref = facts.remote()
    there = ray.get(ref, timeout=GET_S)
    assert there["task"] == ref.task_id().hex()
    assert there["job"] == here.get_job_id()
    assert there["node"] == here.get_node_id()
    assert there["worker"] != here.get_worker_id()
    assert there["actor"] is None
    assert there["namespace"] == here.namespace
    assert here.get_task_id() is None or here.get_task_id() != there["task"]


def test_each_task_has_its_own_id(ray: ModuleType) -> None:
    @ray.remote
    def own_id() -> str:
        return str(sundog.get_runtime_context().get_task_id())

    assert len(set(ray.get([own_id.remote() for _ in range(100)], timeout=GET_S))) == 100
