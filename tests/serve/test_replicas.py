"""What plans say is carried out: replicas are made, watched, asked and ended, and the plan hears of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

import sundog
from sundog.exceptions import ActorDiedError, RayTaskError
from sundog.serve import replicas as module
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.plan import Check, DeploymentPlan, DeploymentTarget, Reconfigure, ReplicaRow, Start, Stop
from sundog.serve.replica import ReplicaBoot, ReplicaFacts
from sundog.serve.replicas import Replicas
from sundog.serve.rows import DeploymentStatus, ReplicaState
from sundog.serve.schema import LoggingConfig
from tests.serve.fakes import MODEL, FakeActor, FakeMethod, FakeSession

FACTS = ReplicaFacts(1, "n1", "a1", "w1", None, "log")
DEAD = ActorDiedError("the process was killed")


class FakeBoard:
    def __init__(self) -> None:
        self.cleared: list[int] = []

    def clear_row(self, row: int) -> None:
        self.cleared.append(row)


class FakeStore:
    def code(self, key: str) -> bytes:
        return key.encode()


class FakeApps:
    specs: dict[str, object] = {}


class FakeCore:
    """The controller: notes what it is told."""

    def __init__(self) -> None:
        self.board, self.store, self.apps = FakeBoard(), FakeStore(), FakeApps()
        self.log_folder, self.dirty = "logs", False
        self.published = self.woken = 0

    def now(self) -> float:
        return 100.0

    def wake(self) -> None:
        self.woken += 1

    def publish_deployment(self, plan: DeploymentPlan) -> None:
        self.published += 1

    def logging_of(self, app: str) -> LoggingConfig:
        return LoggingConfig()


class Scene:
    """One deployment, whose replicas are one fake actor."""

    def __init__(self, session: FakeSession, count: int = 1, config: Any = None, **process: Any) -> None:
        self.core, self.session = FakeCore(), session
        self.replicas = Replicas(cast(Any, self.core))
        names = (f"r{number}" for number in itertools.count(1))
        self.plan = DeploymentPlan(MODEL, lambda: next(names))
        self.target = DeploymentTarget("v1", config or DeploymentConfig(), count, "code", process)
        self.plan.deploy(self.target)
        self.actor = session.made.actor

    def step(self) -> ReplicaRow:
        """Do what the plan says; the first replica."""
        for action in self.plan.step(100.0):
            self.replicas.do(self.plan, action)
        return next(iter(self.plan.replicas.values()))

    async def settle(self) -> None:
        """Until no task can go on: those that are left wait for an answer that the test has not given."""
        for _ in range(30):
            await asyncio.sleep(0)

    async def run(self) -> ReplicaRow:
        """A replica that runs."""
        self.actor.initialize = FakeMethod(FACTS)
        row = self.step()
        await self.settle()
        assert row.state == ReplicaState.RUNNING
        return row


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    return FakeSession(monkeypatch)


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(cast(Any, story()))


# ---------------------------------------------------------------------- start
def test_a_replica_is_made_with_its_code_its_rank_and_the_options_of_its_process(
    session: FakeSession,
) -> None:
    async def story() -> None:
        scene = Scene(session, ray_actor_options={"num_cpus": 2, "memory": None})
        row = await scene.run()
        (chosen,), (((boot,), _),) = session.made.chosen, session.made.given
        assert isinstance(boot, ReplicaBoot) and boot.code == b"code" and boot.replica_id == row.id
        assert (boot.rank, boot.world_size, boot.version, boot.log_folder) == (0, 1, "v1", "logs")
        assert chosen["name"] == "SERVE_REPLICA::shop#Model#r1" and chosen["namespace"] == "serve"
        assert chosen["num_cpus"] == 2 and "memory" not in chosen and chosen["max_restarts"] == 0
        living = scene.replicas.living["r1"]
        assert living.facts is FACTS and living.board_row == 0 and scene.core.board.cleared == [0]
        assert scene.replicas.nodes == {"r1": "n1"} and scene.core.dirty and scene.core.woken
        assert row.started_s > 0

    play(story)


def test_a_replica_whose_constructor_raises_ends_and_the_plan_tells_the_error(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        scene.actor.initialize = FakeMethod(RayTaskError("__init__", "KeyError: tea", KeyError("tea")))
        scene.step()
        await scene.settle()
        assert scene.plan.replicas == {} and "tea" in scene.plan.message
        assert session.killed == [scene.actor] and scene.replicas.rows_taken == set()
        assert scene.core.woken and not scene.replicas.dead  # one that never began has no log to show

    play(story)


def test_a_replica_that_cannot_be_made_is_told_with_the_class_of_the_error(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        scene = Scene(session, max_replicas_per_node=1)
        monkeypatch.setattr(sundog, "nodes", lambda: [{"NodeID": "ab" * 16, "Alive": True}])
        monkeypatch.setattr(scene.core, "store", None)
        scene.step()
        await scene.settle()
        assert "AttributeError: 'NoneType' object has no attribute 'code'" in scene.plan.message
        assert scene.plan.replicas == {} and scene.replicas.living == {} and scene.core.woken
        assert scene.replicas.nodes == {}

    play(story)


def test_a_replica_that_is_not_wanted_any_more_is_not_made(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        scene.step().state = ReplicaState.STOPPING
        await scene.settle()
        assert session.made.given == []

    play(story)


def test_no_node_gets_more_replicas_than_its_deployment_allows(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, gone, two, three = (letter * 32 for letter in "abcd")
    nodes: list[dict[str, object]] = [
        {"NodeID": one, "Alive": True},
        {"NodeID": gone, "Alive": False},
        {"NodeID": two, "Alive": True},
    ]
    monkeypatch.setattr(sundog, "nodes", lambda: nodes)
    monkeypatch.setattr(module, "_PLACE_S", 0.0)

    async def story() -> None:
        scene = Scene(session, count=3, max_replicas_per_node=1)
        scene.step()
        await scene.settle()
        assert scene.replicas.nodes == {"r1": one, "r2": two}
        placed = [each["scheduling_strategy"].node_id for each in session.made.chosen]
        assert placed == [one, two]
        nodes.append({"NodeID": three, "Alive": True})
        await scene.settle()
        assert scene.replicas.nodes["r3"] == three

    play(story)


def test_rows_of_the_board_are_used_again_and_a_full_board_is_no_error(session: FakeSession) -> None:
    scene = Scene(session)
    taken = [scene.replicas.take_row() for _ in range(module.ROWS)]
    assert taken == list(range(module.ROWS)) and scene.replicas.take_row() == -1
    scene.replicas.rows_taken.discard(3)
    assert scene.replicas.take_row() == 3 and scene.core.board.cleared[-1] == 3


# ---------------------------------------------------------------------- while it runs
def test_the_death_of_a_replica_is_told_to_the_plan_at_once(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        await scene.run()
        assert scene.actor.parked.chosen == {"enable_task_events": False}
        scene.actor.parked.refs[0].result.set_exception(DEAD)
        await scene.settle()
        assert "r1" not in scene.plan.replicas and scene.replicas.living == {}
        assert scene.plan.status == DeploymentStatus.UNHEALTHY
        assert "A replica died: ActorDiedError: the process was killed" in scene.plan.message
        (dead,) = scene.replicas.dead[MODEL]
        assert dead.facts is FACTS

    play(story)


def test_the_last_replicas_that_ended_are_remembered_and_older_ones_are_not(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session, count=12)
        await scene.run()
        scene.replicas.end_all()
        assert [each.row.id.unique_id for each in scene.replicas.dead[MODEL]] == [
            f"r{number}" for number in range(3, 13)
        ]

    play(story)


def test_health_is_asked_for_and_three_failures_end_a_replica(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        row = await scene.run()
        row.failures = 2
        scene.actor.check_health = FakeMethod(
            {}, RayTaskError("check_health", "OSError: no disk", OSError("no disk"))
        )
        scene.replicas.do(scene.plan, Check(row))
        await scene.settle()
        assert row.failures == 0
        for _ in range(3):
            scene.replicas.do(scene.plan, Check(row))
            await scene.settle()
        assert scene.plan.replicas == {} and session.killed == [scene.actor]
        assert "health check failed" in scene.plan.message and "no disk" in scene.plan.message

    play(story)


def test_a_health_check_without_an_answer_in_time_is_a_failure(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session, config=DeploymentConfig(health_check_timeout_s=0.001))
        row = await scene.run()
        row.failures = 2
        scene.replicas.do(scene.plan, Check(row))
        while not session.killed:
            await asyncio.sleep(0)
        assert "it did not answer in time." in scene.plan.message

    play(story)


def test_a_replica_takes_new_options_or_is_replaced(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        row = await scene.run()
        scene.actor.reconfigure = FakeMethod(
            None, RayTaskError("reconfigure", "ValueError: bad size", ValueError("bad size"))
        )
        row.state = ReplicaState.UPDATING
        scene.replicas.do(scene.plan, Reconfigure(row, scene.target))
        await scene.settle()
        assert row.state == ReplicaState.RUNNING
        assert scene.actor.reconfigure.calls == [((scene.target.config, 0, 1), {})]
        scene.replicas.do(scene.plan, Reconfigure(row, scene.target))
        await scene.settle()
        assert session.killed == [scene.actor] and "bad size" in scene.plan.message

    play(story)


def test_a_replica_that_dies_while_it_is_asked_is_left_to_its_watcher(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        row = await scene.run()
        scene.actor.check_health = scene.actor.reconfigure = FakeMethod(DEAD)
        scene.replicas.do(scene.plan, Check(row))
        scene.replicas.do(scene.plan, Reconfigure(row, scene.target))
        await scene.settle()
        assert row.state == ReplicaState.RUNNING and row.failures == 0 and session.killed == []

    play(story)


# ---------------------------------------------------------------------- end
def test_a_replica_refuses_then_drains_then_ends(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        row = await scene.run()
        scene.actor.refuse = FakeMethod(None)
        row.state = ReplicaState.STOPPING
        scene.replicas.do(scene.plan, Stop(row, True))
        await scene.settle()
        assert scene.core.published == 1 and row.is_refusing and session.killed == []
        config = scene.target.config
        waits = (config.graceful_shutdown_wait_loop_s, config.graceful_shutdown_timeout_s)
        assert scene.actor.drain.calls == [(waits, {})]
        scene.actor.drain.refs[0].result.set_result(None)
        await scene.settle()
        assert session.killed == [scene.actor] and scene.plan.replicas == {} and scene.replicas.nodes == {}

    play(story)


def test_the_replicas_of_a_deleted_deployment_wait_for_no_late_request(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        row = await scene.run()
        scene.actor.refuse = FakeMethod(None)
        scene.plan.delete()
        scene.replicas.do(scene.plan, Stop(row, True))
        await scene.settle()
        assert scene.actor.drain.calls == [((0.0, scene.target.config.graceful_shutdown_timeout_s), {})]

    play(story)


def test_a_replica_that_is_to_end_at_once_is_not_drained(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        row = await scene.run()
        scene.replicas.do(scene.plan, Stop(row, False))
        await scene.settle()
        assert scene.actor.drain.calls == [] and session.killed == [scene.actor]
        assert scene.plan.replicas == {}

    play(story)


# ---------------------------------------------------------------------- another life of the controller
def test_a_replica_of_an_earlier_controller_is_found_again(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        (start,) = scene.plan.step(100.0)
        assert isinstance(start, Start)
        row, actor = start.row, FakeActor(initialize=FACTS)
        row.started_s = 5.0
        session.named[row.id.to_full_id_str()] = actor
        await scene.replicas.recover(scene.plan, row, 7)
        assert row.state == ReplicaState.RUNNING and row.started_s == 5.0
        assert scene.replicas.living["r1"].board_row == 7 and scene.replicas.rows_taken == {7}
        assert session.made.given == []

    play(story)


def test_a_replica_that_is_gone_when_the_controller_comes_back_is_forgotten(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        (start,) = scene.plan.step(100.0)
        await scene.replicas.recover(scene.plan, cast(Start, start).row, 7)
        assert scene.plan.replicas == {} and scene.replicas.living == {}

    play(story)


def test_a_replica_that_was_about_to_end_when_the_controller_died_ends_now(session: FakeSession) -> None:
    async def story() -> None:
        scene = Scene(session)
        (start,) = scene.plan.step(100.0)
        row, actor = cast(Start, start).row, FakeActor()
        row.state = ReplicaState.STOPPING
        session.named[row.id.to_full_id_str()] = actor
        await scene.replicas.recover(scene.plan, row, 7)
        assert session.killed == [actor] and scene.plan.replicas == {} and scene.replicas.rows_taken == set()

    play(story)
