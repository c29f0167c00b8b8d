"""A driver that runs for weeks: whatever it makes and drops, over and over, leaves nothing in its tables."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sundog import engines
from sundog.exceptions import ActorAlreadyExistsError, ActorDiedError, GetTimeoutError, ObjectStoreFullError
from sundog.observe import records
from sundog.observe.index import session_usage
from sundog.owner import context, dispatch
from sundog.owner.actors import ActorCalls
from sundog.owner.lanes import ActorLane
from sundog.wire.requests import Nodes
from tests.integration.gates import await_file, await_true

GET_S = 120
Start = Callable[..., ModuleType]


def owner_of_driver() -> Any:
    """The owner of this process."""
    engine = engines.current()
    assert engine is not None
    return engine.owner


# ---------------------------------------------------------------------- generators
def test_a_generator_that_is_dropped_while_it_runs_is_forgotten_at_its_end(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        yield 1
        await_file(tmp_path / "go")
        yield 2

    generator = source.remote()
    ray.get(next(generator), timeout=GET_S)
    assert len(owner_of_driver().streams.streams) == 1
    del generator  # as in Ray its task goes on
    (tmp_path / "go").touch()
    await_true(lambda: not owner_of_driver().streams.streams, "an empty table of generators")


def test_giving_up_on_an_item_again_and_again_leaves_nobody_to_be_woken(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        await_file(tmp_path / "go")
        yield 1

    async def poll() -> Any:
        generator = source.remote()
        for _ in range(20):
            try:
                await asyncio.wait_for(anext(generator), 0.001)
            except TimeoutError:
                continue
        (stream,) = owner_of_driver().streams.streams.values()
        left = len(stream.wakers)
        (tmp_path / "go").touch()
        return left, ray.get(await anext(generator), timeout=GET_S)

    assert asyncio.run(poll()) == (0, 1)


# ---------------------------------------------------------------------- actors
def test_actors_that_are_dead_are_forgotten(ray: ModuleType) -> None:
    @ray.remote
    class Cell:
        def add(self, number: int) -> int:
            return number + 1

    owner = owner_of_driver()
    for _ in range(3):
        cells = [Cell.remote() for _ in range(3)]
        assert ray.get([cell.add.remote(1) for cell in cells], timeout=GET_S) == [2, 2, 2]
        for cell in cells[:2]:
            ray.kill(cell)
        del cells, cell
    await_true(lambda: not owner.actors.links and not owner.actors.scopes, "an empty table of actors")


def test_a_dead_actor_that_was_forgotten_still_says_why_it_died(ray: ModuleType) -> None:
    @ray.remote
    class Cell:
        def one(self) -> int:
            return 1

        def two(self) -> int:
            return 2

    cell = Cell.remote()
    assert ray.get(cell.one.remote(), timeout=GET_S) == 1
    ray.kill(cell)
    await_true(lambda: not owner_of_driver().actors.links, "an empty table of actors")
    for method in (cell.one, cell.two):  # bound before it died, and after
        with pytest.raises(ActorDiedError, match="kill"):
            ray.get(method.remote(), timeout=GET_S)


def test_a_call_made_while_the_news_of_the_death_is_read_fails_too(
    ray: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    @ray.remote
    class Cell:
        def one(self) -> int:
            return 1

    cell = Cell.remote()
    ray.get(cell.one.remote(), timeout=GET_S)
    link = cell.one._link
    ray.kill(cell)
    await_true(lambda: link.state == "DEAD", "the news of its death")
    send_calls = ActorCalls.send_calls

    def died_meanwhile(calls: ActorCalls, which: ActorLane) -> None:
        link.state = "DEAD"
        send_calls(calls, which)

    monkeypatch.setattr(ActorCalls, "send_calls", died_meanwhile)
    link.state = "ALIVE"  # as the calling thread saw it last
    call = cell.one.remote()
    with pytest.raises(ActorDiedError):
        ray.get(call, timeout=GET_S)


# ---------------------------------------------------------------------- shapes of demand
def test_demands_that_nobody_makes_any_more_are_forgotten(ray: ModuleType) -> None:
    @ray.remote
    def one() -> int:
        return 1

    dispatch = owner_of_driver().dispatch
    for number in range(1, 301):
        assert ray.get(one.options(num_cpus=number / 1000).remote(), timeout=GET_S) == 1
    assert len(dispatch.shapes) == len(dispatch.shapes_by_key) == len(dispatch.shapes_by_spec) <= 65


def test_a_function_whose_demand_was_forgotten_runs_again(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def one(_: object = None) -> int:
        return 1

    @ray.remote
    def gate() -> None:
        await_file(tmp_path / "go")

    dispatch = owner_of_driver().dispatch
    kept = one.options(num_cpus=0.5)
    assert ray.get(kept.remote(), timeout=GET_S) == 1
    late = kept.remote(gate.options(num_cpus=0).remote())
    shape = kept._fn.shape
    for number in range(1, 201):
        ray.get(one.options(num_cpus=number / 1000).remote(), timeout=GET_S)
    await_true(lambda: not shape.lanes, "the end of its leases")
    with owner_of_driver().lock:
        dispatch._sweep_shapes()
    assert shape.key not in dispatch.shapes_by_key
    (tmp_path / "go").touch()  # a task that waited for its argument brings it back
    assert ray.get(late, timeout=GET_S) == 1
    assert ray.get([kept.remote() for _ in range(3)], timeout=GET_S) == [1, 1, 1]


# ---------------------------------------------------------------------- functions
def test_functions_that_are_gone_are_forgotten(ray: ModuleType) -> None:
    tasks = owner_of_driver().tasks
    before = len(tasks._codes)
    for number in range(20):
        function = ray.remote(lambda number=number: number)
        assert ray.get(function.remote(), timeout=GET_S) == number
    assert len(tasks._codes) == before + 1
    del function
    assert len(tasks._codes) == before


def test_a_function_that_captured_a_ref_stays_with_it(ray: ModuleType) -> None:
    def submit() -> Any:
        seven = ray.put(7)
        return ray.remote(lambda: ray.get(seven)).remote()

    assert ray.get(submit(), timeout=GET_S) == 7


def test_options_that_a_worker_cannot_tell_apart_do_not_make_another_function(ray: ModuleType) -> None:
    @ray.remote
    def one() -> int:
        return 1

    numbers = set()
    for cpus in (0.1, 0.2, 0.3):
        same = one.options(num_cpus=cpus)
        assert ray.get(same.remote(), timeout=GET_S) == 1
        numbers.add(same._fn.number)
    other = one.options(num_cpus=0.1, name="other")
    assert ray.get(other.remote(), timeout=GET_S) == 1
    assert len(numbers) == 1
    assert other._fn.number not in numbers


def test_a_worker_forgets_functions_that_its_owner_may_send_again(
    ray_session: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_KNOWN_MAX", 10)
    ray = ray_session(num_cpus=1)

    @ray.remote
    def known() -> int:
        return max(len(each.fns) for each in gc.get_objects() if type(each).__name__ == "AnswerLane")

    most = 0
    for number in range(40):
        batch = [known.options(name=f"known-{number}-{each}").remote() for each in range(3)]
        most = max(most, *ray.get([*batch, known.remote()], timeout=GET_S))
    assert 10 <= most <= 20


# ---------------------------------------------------------------------- what fails on the way
def freed(oid: bytes) -> bool:
    """Whether an object of this driver is gone."""
    owner = owner_of_driver()
    with owner.lock:
        owner.objects.drain()
    return oid not in owner.ready and oid not in owner.refs.owned


def test_refs_in_a_value_that_could_not_be_put_are_not_held(
    ray: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise ObjectStoreFullError("no room")

    inner = ray.put(1)
    with monkeypatch.context() as patch:
        patch.setattr(owner_of_driver().segments, "write", full)
        with pytest.raises(ObjectStoreFullError):
            ray.put([inner, np.zeros(1_000_000)])
    oid = inner.binary()
    assert ray.get(inner, timeout=GET_S) == 1
    del inner
    assert freed(oid)


def test_arguments_of_an_actor_whose_name_is_taken_are_not_held(ray: ModuleType) -> None:
    @ray.remote
    class Cell:
        def __init__(self, _: object = None) -> None:
            return

    first = Cell.options(name="taken").remote()
    argument = ray.put(1)
    for options in ({}, {"get_if_exists": True}):
        with contextlib.suppress(ActorAlreadyExistsError):
            Cell.options(name="taken", **options).remote(argument)
    oid = argument.binary()
    del argument
    assert freed(oid)
    del first


def test_an_answer_that_comes_too_late_is_not_kept(ray: ModuleType) -> None:
    control = owner_of_driver().control
    with pytest.raises(GetTimeoutError):
        control.request(Nodes(), timeout_s=0)
    assert control.request(Nodes())  # answered after the one before
    assert not control._answers and not control._asked


def test_futures_are_completed_after_a_delivery_that_failed(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def late() -> int:
        await_file(tmp_path / "go")
        return 1

    def broken() -> None:
        raise ValueError("I/O operation on closed file")

    future = late.remote().future()
    owner_of_driver().deliveries.bring(broken)
    (tmp_path / "go").touch()
    assert future.result(GET_S) == 1


# ---------------------------------------------------------------------- files
def test_files_of_workers_that_are_gone_are_bounded_and_the_totals_are_not(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2, _system_config={"dead_process_files": 4})
    session = Path(context.facts.session["path"])

    @ray.remote
    class Short:
        def call(self) -> int:
            return 1

        def fail(self) -> None:
            os._exit(1)

    failed = Short.remote()
    with pytest.raises(ActorDiedError):
        ray.get(failed.fail.remote(), timeout=GET_S)
    for _ in range(15):
        actor = Short.remote()
        assert ray.get(actor.call.remote(), timeout=GET_S) == 1
        ray.kill(actor)
    await_true(lambda: len(os.listdir(session / "rings")) <= 2 * (1 + 4), "few rings")
    await_true(lambda: len(os.listdir(session / "logs")) <= 2 + 2 * (4 + 1 + 3), "few logs")
    died = [row for row in ray.util.state.list_actors() if row.state == "DEAD"]
    assert len(died) == 16
    ray.shutdown()
    assert session_usage(str(session))["classes"]["Short"]["count"] >= 31
    found = records.read_session(str(session))
    assert found.dropped == 0
    assert sum(row.name.startswith("Short.") for row in found.tasks) >= 31
