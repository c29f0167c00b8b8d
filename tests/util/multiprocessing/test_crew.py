"""The workers of a pool and the functions that they know, without workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import sundog
from sundog.exceptions import ActorDiedError, RayTaskError, TaskCancelledError, WorkerCrashedError
from sundog.serialize.pack import pack_function
from sundog.util.multiprocessing import crew
from sundog.util.multiprocessing.crew import PoolCrew, pool_error


class FakeRef:
    """A ref of something that was put."""

    def binary(self) -> bytes:
        return b"r" * 20


class FakeCrew:
    """The owner's side of a crew: notes the steps."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.steps: list[str] = []
        self.ended = threading.Event()

    def muster(self, _submit: Callable[[], object]) -> list[object]:
        self.steps.append("muster")
        return []

    def mustered(self) -> None:
        self.steps.append("mustered")

    def abort(self, why: str) -> None:
        self.steps.append(f"abort: {why}")
        self.ended.set()

    def close(self) -> None:
        self.steps.append("close")

    def await_idle(self) -> None:
        self.steps.append("idle")

    def end(self) -> None:
        self.steps.append("end")


class FakeEngine:
    """An engine that gives one crew."""

    def __init__(self) -> None:
        self.made: FakeCrew
        self.options: Any = None
        self.spoiled = False

    def crew(self, options: Any, size: int, *, spoiled: bool) -> FakeCrew:
        self.made, self.options, self.spoiled = FakeCrew(size), options, spoiled
        return self.made


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = FakeEngine()
    monkeypatch.setattr(crew, "engine_or_init", lambda: made)
    monkeypatch.setattr(sundog, "put", lambda _value: FakeRef())
    monkeypatch.setattr(sundog, "get", lambda refs: refs)
    return made


def make(chunks_per_life: int | None = None, initializer: Any = None, **remote_args: object) -> PoolCrew:
    return PoolCrew(2, initializer, (), chunks_per_life, remote_args)


def double(x: int) -> int:
    return 2 * x


def test_chunks_run_at_most_once_without_a_cpu_unless_the_user_says_otherwise(engine: FakeEngine) -> None:
    assert make().size == 2
    assert (engine.options.num_cpus, engine.options.max_retries, engine.spoiled) == (0, 0, False)
    make(3, max_task_retries=2, num_cpus=1, max_restarts=5)  # the last is an option of actors alone
    assert (engine.options.num_cpus, engine.options.max_retries, engine.options.max_calls) == (1, 2, 3)


def test_every_worker_is_greeted_before_the_pool_is_there(engine: FakeEngine) -> None:
    make(initializer=print)
    assert engine.made.steps == ["muster", "mustered"] and engine.spoiled


@pytest.mark.parametrize(
    "error",
    [RayTaskError.from_exception(ValueError("no"), function_name="init"), WorkerCrashedError("it died")],
)
def test_a_pool_whose_initializer_fails_ends_its_workers(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def get(_refs: object) -> object:
        raise error

    monkeypatch.setattr(sundog, "get", get)
    with pytest.raises(ActorDiedError):
        make(initializer=print)
    assert engine.made.steps == ["muster", "abort: its Pool could not be started"]


def test_a_function_is_known_by_its_content_and_its_way(engine: FakeEngine) -> None:
    pool = make()
    first = pool.function(double, "map")
    assert pool.function(double, "map") is first and pool.function(double, "star") is not first
    assert isinstance(first, crew._CrewFunction)


def test_a_function_whose_globals_changed_is_pickled_again(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[object] = []

    def noting(func: Callable[..., object]) -> tuple[bytes, Any]:
        packed.append(func)
        return pack_function(func)

    monkeypatch.setattr(crew, "pack_function", noting)
    pool = make()
    space: dict[str, Any] = {"factor": 2}
    exec("def times(x):\n    return factor * x", space)
    first = pool.known(space["times"], "map")
    assert pool.known(space["times"], "map") is first and len(packed) == 1
    space["factor"] = 3
    assert pool.known(space["times"], "map") is not first and len(packed) == 2


def test_a_function_that_closes_over_something_is_looked_at_each_time(engine: FakeEngine) -> None:
    pool, held = make(), [1]
    first = pool.known(lambda x: held[0] * x, "map")
    held[0] = 2
    assert pool.known(lambda x: held[0] * x, "map") is not first and not pool._by_function


def test_functions_travel_with_each_call_where_workers_count_their_chunks(engine: FakeEngine) -> None:
    assert isinstance(make(3).function(double, "map"), crew._ByArgument)


def test_only_so_many_functions_are_kept(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_FUNCTIONS_MAX", 2)
    pool = make()
    for builtin in (abs, len, sum):
        pool.known(builtin, "map")
    assert len(pool._by_function) == len(pool._by_blob) == 2
    assert [known[0] for known in pool._by_function.values()] == [len, sum]


def test_a_pool_ends_after_its_work_or_at_once(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make()
    with monkeypatch.context() as patch:
        patch.setattr(sundog, "is_initialized", lambda: True)
        pool.close()
        pool.join()
        assert engine.made.steps[2:] == ["close", "idle", "end"]
        pool.abandon()  # in a thread of its own: the garbage collector may hold any lock
        assert engine.made.ended.wait(60) and engine.made.steps[-1] == "abort: its Pool was terminated"
    pool.join()
    pool.terminate()
    assert len(engine.made.steps) == 6, "the end of the session has ended them"


def test_errors_are_those_that_users_of_a_pool_know() -> None:
    crashed = pool_error(WorkerCrashedError("it died", exit_code=3))
    assert isinstance(crashed, ActorDiedError) and crashed.exit_code == 3
    assert "terminated" in str(pool_error(TaskCancelledError()))
    other = KeyError("a")
    assert pool_error(other) is other
