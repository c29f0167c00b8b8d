"""Scheduling on a real session: strategies (SPREAD, node affinity, labels), and who waits behind whom."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sundog import engines
from sundog.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)
from sundog.wire.requests import Status
from tests.integration import drivers, gates
from tests.integration.gates import Gate

Start = Callable[..., ModuleType]
ELSEWHERE = "ab" * 16


@pytest.mark.parametrize("strategy", ["DEFAULT", "SPREAD"])
def test_named_strategies_run_tasks_and_actors(ray: ModuleType, strategy: str) -> None:
    @ray.remote(scheduling_strategy=strategy)
    def double(x: int) -> int:
        return 2 * x

    @ray.remote(scheduling_strategy=strategy)
    class Actor:
        def hello(self) -> int:
            return 1

    assert ray.get([double.remote(i) for i in range(20)], timeout=120) == [2 * i for i in range(20)]
    assert ray.get(Actor.remote().hello.remote(), timeout=120) == 1


def test_an_unknown_strategy_is_refused(ray: ModuleType) -> None:
    @ray.remote
    def one() -> int:
        return 1

    with pytest.raises((ValueError, TypeError), match="SPREAD"):
        one.options(scheduling_strategy="SOMEWHERE").remote()


def test_hard_affinity_to_this_node_runs_here(ray: ModuleType) -> None:
    here = ray.get_runtime_context().get_node_id()
    assert here == ray.nodes()[0]["NodeID"]

    @ray.remote
    class Actor:
        def where(self) -> Any:
            return ray.get_runtime_context().get_node_id()

    strategy = NodeAffinitySchedulingStrategy(here, soft=False)
    actor = Actor.options(scheduling_strategy=strategy).remote()
    assert ray.get(actor.where.remote(), timeout=120) == here


def test_hard_affinity_to_a_missing_node_fails_the_task(ray: ModuleType) -> None:
    @ray.remote
    def one() -> int:
        return 1

    strategy = NodeAffinitySchedulingStrategy(ELSEWHERE, soft=False)
    refs = [one.options(scheduling_strategy=strategy).remote() for _ in range(3)]
    for ref in refs:
        with pytest.raises(ray.exceptions.TaskUnschedulableError, match=ELSEWHERE):
            ray.get(ref, timeout=120)
    again = one.options(scheduling_strategy=strategy).remote()
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(again, timeout=120)
    assert ray.get(one.remote(), timeout=120) == 1


def test_hard_affinity_to_a_missing_node_fails_the_actor(ray: ModuleType) -> None:
    @ray.remote
    class Actor:
        def hello(self) -> int:
            return 1

    strategy = NodeAffinitySchedulingStrategy(ELSEWHERE, soft=False)
    actor = Actor.options(scheduling_strategy=strategy).remote()
    for _ in range(2):
        with pytest.raises(ray.exceptions.ActorUnschedulableError, match=ELSEWHERE):
            ray.get(actor.hello.remote(), timeout=120)


def test_a_worker_that_submits_learns_of_a_missing_node_too(ray: ModuleType) -> None:
    @ray.remote
    def one() -> int:
        return 1

    @ray.remote
    def outer() -> str:
        strategy = NodeAffinitySchedulingStrategy(ELSEWHERE, soft=False)
        try:
            ray.get(one.options(scheduling_strategy=strategy).remote(), timeout=120)
        except ray.exceptions.TaskUnschedulableError:
            return "refused"
        return "ran"

    assert ray.get(outer.remote(), timeout=120) == "refused"


def test_soft_affinity_falls_back(ray: ModuleType) -> None:
    @ray.remote
    def one() -> int:
        return 1

    strategy = NodeAffinitySchedulingStrategy(ELSEWHERE, soft=True)
    assert ray.get(one.options(scheduling_strategy=strategy).remote(), timeout=120) == 1


@pytest.mark.parametrize(
    ("hard", "runs"),
    [
        ({"region": In("eu", "us")}, True),
        ({"region": In("asia")}, False),
        ({"region": NotIn("asia")}, True),
        ({"region": Exists(), "spot": DoesNotExist()}, True),
        ({"spot": Exists()}, False),
    ],
)
def test_label_conditions_choose_nodes(ray_session: Start, hard: dict[str, Any], runs: bool) -> None:
    ray = ray_session(num_cpus=1, labels={"region": "eu"})

    @ray.remote
    def one() -> int:
        return 1

    ref = one.options(scheduling_strategy=NodeLabelSchedulingStrategy(hard)).remote()
    if runs:
        assert ray.get(ref, timeout=120) == 1
    else:
        assert ray.wait([ref], timeout=0.2)[0] == []


def test_a_label_selector_chooses_nodes(ray_session: Start, capsys: pytest.CaptureFixture[str]) -> None:
    ray = ray_session(num_cpus=1, labels={"region": "eu", "tier": "gold"})
    here = ray.get_runtime_context().get_node_id()
    expected = {"region": "eu", "tier": "gold", "ray.io/node-id": here}
    assert ray.nodes()[0]["Labels"] == ray.get_runtime_context().get_node_labels() == expected

    @ray.remote
    def one() -> int:
        return 1

    @ray.remote
    class Actor:
        def hello(self) -> int:
            return 1

    assert ray.get(one.options(label_selector={"ray.io/node-id": here}).remote(), timeout=120) == 1
    assert ray.get(one.options(label_selector={"region": "eu"}).remote(), timeout=120) == 1
    assert ray.get(one.options(label_selector={"region": "!us"}).remote(), timeout=120) == 1
    assert ray.get(one.options(label_selector={"region": "in(eu,us)"}).remote(), timeout=120) == 1
    actor = Actor.options(label_selector={"tier": "gold"}).remote()
    assert ray.get(actor.hello.remote(), timeout=120) == 1
    waits = one.options(label_selector={"region": "us"}).remote()
    assert ray.wait([waits], timeout=0.1)[0] == []
    drivers.await_true(lambda: "labels" in capsys.readouterr().err, "the warning")


def test_a_fallback_strategy_says_what_else_would_do(
    ray_session: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = ray_session(num_cpus=1, labels={"region": "eu"})

    @ray.remote(label_selector={"region": "us"}, fallback_strategy=[{"label_selector": {"region": "eu"}}])
    def one() -> int:
        return 1

    @ray.remote
    class Actor:
        def hello(self) -> int:
            return 1

    assert ray.get(one.remote(), timeout=120) == 1
    anywhere: list[dict[str, dict[str, str]]] = [
        {"label_selector": {"region": "asia"}},
        {"label_selector": {}},
    ]
    actor = Actor.options(label_selector={"region": "us"}, fallback_strategy=anywhere).remote()
    assert ray.get(actor.hello.remote(), timeout=120) == 1
    waits = one.options(fallback_strategy=[{"label_selector": {"region": "asia"}}]).remote()
    assert ray.wait([waits], timeout=0.1)[0] == []
    drivers.await_true(lambda: "asia" in capsys.readouterr().err, "the warning")


def test_short_tasks_do_not_wait_behind_one_of_their_kind_that_is_long(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=2)
    gate = Gate(tmp_path)

    @ray.remote
    def work(long: bool) -> None:
        if long:
            gate.enter()

    ray.get([work.remote(False) for _ in range(200)], timeout=120)
    leases = engines.current().owner.dispatch.leases  # type: ignore[union-attr]
    gates.await_true(lambda: not leases, "the return of all leases")
    long = work.remote(True)
    gates.await_true(gate.inside, "the start of the long task")
    gates.await_true(lambda: len(leases) == 1, "the return of all leases but that of the long task")
    ray.get([work.remote(False) for _ in range(20)], timeout=120)
    assert ray.wait([long], timeout=0)[1]
    gate.open()
    ray.get(long, timeout=120)


def test_tasks_in_the_packet_of_a_long_one_go_to_another_worker(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=2)
    gate = Gate(tmp_path)

    @ray.remote
    def work(long: bool) -> None:
        if long:
            gate.enter()

    ray.get([work.remote(False) for _ in range(200)], timeout=120)
    # The long task stands in the middle of a packet, which its worker reads as a whole.
    short = [work.remote(number == 30) for number in range(200)]
    long = short.pop(30)
    ray.get(short, timeout=120)
    assert ray.wait([long], timeout=0)[0] == []
    gate.open()
    ray.get(long, timeout=120)


def test_the_node_hears_how_many_wait_although_nothing_moves(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote(num_cpus=64)
    def never() -> None: ...

    waiting = [never.remote() for _ in range(400)]
    owner = engines.current().owner  # type: ignore[union-attr]

    def told() -> int:
        return sum(shape.wanted for shape in owner.dispatch.shapes)

    # To ask the node would make us look at our queues.
    gates.await_true(lambda: told() > 200, "the word to the node of most that wait")
    assert 200 < sum(row["count"] for row in owner.control.request(Status())["pending"]) <= 400
    gates.await_true(lambda: not owner.reactor.ticking, "the rest after that")
    for ref in waiting:
        ray.cancel(ref)
    assert told() == 0
    assert owner.control.request(Status())["pending"] == []
    assert len(ray.wait(waiting, num_returns=400, timeout=120)[0]) == 400


def test_tasks_begin_in_the_order_of_their_submission_behind_a_long_one_too(
    ray_session: Callable[..., ModuleType], tmp_path: Path
) -> None:
    ray = ray_session(num_cpus=2)
    begun = tmp_path / "begun"

    @ray.remote
    def run(number: int) -> None:
        with open(begun, "a") as file:
            file.write(f"{number}\n")
        while number == 0 and len(begun.read_text().split()) < 8:
            time.sleep(0.005)  # the first one runs until all others have begun
        time.sleep(0.02)

    ray.get([run.remote(number) for number in range(8)])
    order = begun.read_text().split()
    assert sorted(order[:2]) == ["0", "1"], "not behind the long one, although the second worker came later"
    assert len(order) == 8
