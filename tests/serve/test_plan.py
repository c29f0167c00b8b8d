"""Plans of deployments, played without processes: single histories, then many random ones."""

from __future__ import annotations

import itertools
import random
from typing import Any

from sundog.serve.deployment import DeploymentConfig
from sundog.serve.plan import Check, DeploymentPlan, DeploymentTarget, Reconfigure, Start, Stop
from sundog.serve.rows import DeploymentID, DeploymentStatus, ReplicaState

RUNNING, STOPPING = ReplicaState.RUNNING, ReplicaState.STOPPING


def new_plan() -> DeploymentPlan:
    names = itertools.count()
    return DeploymentPlan(DeploymentID("d", "a"), lambda: f"r{next(names)}")


def target(version: str, count: int, revision: int = 0, **config: Any) -> DeploymentTarget:
    return DeploymentTarget(version, DeploymentConfig(num_replicas=count, **config), count, revision=revision)


def play(plan: DeploymentPlan, now: float, *, room: int | None = None, fails: str = "") -> list[Any]:
    """Carry out what a plan wants, until it wants nothing more; replicas of version `fails` cannot start."""
    done: list[Any] = []
    for _ in range(200):
        actions = [each for each in plan.step(now, room) if not isinstance(each, Check)]
        if not actions:
            return done
        for action in actions:
            done.append(action)
            name = action.row.id.unique_id
            if isinstance(action, Start):
                if action.row.version == fails:
                    plan.start_failed(name, "boom", now)
                else:
                    plan.started(name, now)
            elif isinstance(action, Stop):
                plan.stopped(name)
            elif isinstance(action, Reconfigure):
                plan.reconfigured(name, now)
    raise AssertionError("the plan never settles")


def versions(plan: DeploymentPlan) -> list[str]:
    return sorted(row.version for row in plan.running())


def test_a_deployment_gets_its_replicas_with_ranks_from_zero() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 3))
    play(plan, 0)

    assert sorted(row.rank for row in plan.running()) == [0, 1, 2]
    assert plan.status == DeploymentStatus.HEALTHY


def test_a_new_version_replaces_the_old_one_without_ever_having_too_few() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 4))
    play(plan, 0)
    plan.deploy(target("v2", 4))

    for _ in range(50):
        for action in plan.step(1):
            name = action.row.id.unique_id
            if isinstance(action, Start):
                plan.started(name, 1)
            elif isinstance(action, Stop):
                assert action.graceful
                plan.stopped(name)
            assert len(plan.running()) >= 4
            assert len(plan.replicas) <= 5  # max_surge is 25%
    assert versions(plan) == ["v2"] * 4
    assert plan.status == DeploymentStatus.HEALTHY


def test_max_surge_percent_lets_more_replicas_start_at_once() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 4))
    play(plan, 0)
    plan.deploy(target("v2", 4, max_surge_percent=100))

    assert [type(each) for each in plan.step(1)] == [Start] * 4


def test_without_room_for_more_replicas_old_ones_make_room() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 1))
    play(plan, 0)
    plan.deploy(target("v2", 1))

    stop = plan.step(1, room=0)
    assert [type(each) for each in stop] == [Stop]
    plan.stopped(stop[0].row.id.unique_id)
    play(plan, 1)
    assert versions(plan) == ["v2"]


def test_options_that_need_no_new_process_reconfigure_the_running_ones() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 2))
    play(plan, 0)
    before = set(plan.replicas)
    plan.deploy(target("v1", 2, revision=1, user_config={"a": 1}))

    assert {type(each) for each in play(plan, 1)} == {Reconfigure}
    assert set(plan.replicas) == before


def test_a_version_that_cannot_start_is_given_up_and_the_old_one_stays() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 2))
    play(plan, 0)
    plan.deploy(target("v2", 2))
    play(plan, 1, fails="v2")

    assert versions(plan) == ["v1", "v1"]
    assert plan.status == DeploymentStatus.DEPLOY_FAILED
    assert "Rolled back" in plan.message
    assert "boom" in plan.message


def test_a_first_version_that_cannot_start_fails_after_three_tries() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 1))
    tries = play(plan, 0, fails="v1")

    assert len(tries) == 3
    assert plan.status == DeploymentStatus.DEPLOY_FAILED


def test_an_update_whose_requests_fail_is_rolled_back() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 2))
    play(plan, 0)
    rules = {"max_error_rate": 0.1, "min_requests": 10}
    plan.deploy(target("v2", 2, rolling_update_config=rules))
    start = next(each for each in plan.step(1) if isinstance(each, Start))
    plan.started(start.row.id.unique_id, 1)
    plan.observe(start.row.id.unique_id, 10, 5, 1.0)
    play(plan, 2)

    assert versions(plan) == ["v1", "v1"]
    assert "50% of its requests failed" in plan.message


def test_an_update_whose_requests_take_too_long_is_rolled_back_also_when_the_old_replicas_are_gone() -> None:
    for is_late in (False, True):
        plan = new_plan()
        plan.deploy(target("v1", 1))
        play(plan, 0)
        plan.observe(plan.running()[0].id.unique_id, 100, 0, 1.0)
        plan.deploy(target("v2", 1, rolling_update_config={"max_latency_ratio": 3, "min_requests": 10}))
        start = next(each for each in plan.step(1) if isinstance(each, Start))
        plan.started(start.row.id.unique_id, 1)
        if is_late:
            play(plan, 2)
            assert versions(plan) == ["v2"]
        plan.observe(start.row.id.unique_id, 10, 0, 0.2)  # twice as long: allowed
        plan.step(3)
        assert not plan.rolled_back
        plan.observe(start.row.id.unique_id, 10, 0, 2.0)
        play(plan, 4)

        assert versions(plan) == ["v1"]
        assert "times as long as before" in plan.message


def test_an_update_is_judged_by_what_old_replicas_answered_also_when_that_is_told_after_their_end() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 1))
    play(plan, 0)
    old = plan.running()[0].id.unique_id
    plan.deploy(target("v2", 1, rolling_update_config={"max_latency_ratio": 3, "min_requests": 10}))
    play(plan, 1)
    assert versions(plan) == ["v2"]
    plan.observe(old, 100, 0, 1.0)
    plan.observe(plan.running()[0].id.unique_id, 10, 0, 2.0)
    play(plan, 4)

    assert versions(plan) == ["v1"]
    assert "times as long as before" in plan.message


def test_a_canary_waits_until_it_is_promoted() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 4))
    play(plan, 0)
    plan.deploy(target("v2", 4, rolling_update_config={"canary": "10%"}))
    play(plan, 1)

    assert versions(plan) == ["v1"] * 4 + ["v2"]
    canary = next(row for row in plan.running() if row.version == "v2")
    assert plan.share(canary) == 0.1
    assert plan.status == DeploymentStatus.HEALTHY
    plan.promote()
    play(plan, 2)
    assert versions(plan) == ["v2"] * 4


def test_three_failed_health_checks_in_a_row_end_a_replica() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 1))
    play(plan, 0)
    name = next(iter(plan.replicas))

    assert plan.unhealthy(name, "ill", 1) == []
    assert plan.unhealthy(name, "ill", 2) == []
    plan.healthy(name, 3)
    assert plan.unhealthy(name, "ill", 4) == []
    assert plan.unhealthy(name, "ill", 5) == []
    (stop,) = plan.unhealthy(name, "ill", 6)
    assert isinstance(stop, Stop)
    assert plan.status.value == "UNHEALTHY"
    plan.stopped(name)
    play(plan, 7)
    assert plan.status.value == "HEALTHY"


def test_ranks_close_up_when_replicas_go() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 4))
    play(plan, 0)
    plan.scale(2)
    play(plan, 1)

    assert sorted(row.rank for row in plan.running()) == [0, 1]


def test_a_gang_fails_as_a_whole() -> None:
    plan = new_plan()
    plan.deploy(target("v1", 4, gang_scheduling_config={"gang_size": 2}))
    play(plan, 0)
    rows = list(plan.replicas.values())
    gangs = {row.gang.gang_id for row in rows if row.gang is not None}
    assert len(gangs) == 2
    stops = plan.died(rows[0].id.unique_id, "killed", 1)

    assert len(stops) == 1
    assert stops[0].row.gang is not None
    assert rows[0].gang is not None
    assert stops[0].row.gang.gang_id == rows[0].gang.gang_id


class Story:
    """One random history of a plan: replicas start late, fail, die; users deploy, scale and delete."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.plan = new_plan()
        self.now = 0.0
        self.pending: list[Any] = []
        self.version = 0
        self.has_run = False

    def run(self) -> None:
        self.deploy()
        for _ in range(300):
            self.now += self.dice.random()
            self.dice.choice([self.step, self.step, self.step, self.finish, self.finish, self.disturb])()
            self.check()
        self.settle()

    def deploy(self) -> None:
        self.version += self.dice.random() < 0.7
        count = self.dice.randint(1, 6)
        self.plan.deploy(target(f"v{self.version}", count, revision=self.dice.randint(0, 5)))

    def step(self) -> None:
        room = self.dice.choice([None, 0, 1, 5])
        self.pending += self.plan.step(self.now, room)

    def finish(self, *, well: bool = False) -> None:
        if not self.pending:
            return
        action = self.pending.pop(self.dice.randrange(len(self.pending)))
        name = action.row.id.unique_id
        fails = not well and self.dice.random() < 0.2
        if isinstance(action, Start):
            if name not in self.plan.replicas:
                return
            if fails:
                self.plan.start_failed(name, "boom", self.now)
            else:
                self.plan.started(name, self.now)
        elif isinstance(action, Stop):
            self.plan.stopped(name)
        elif isinstance(action, Reconfigure):
            if fails:
                self.pending += self.plan.reconfigure_failed(name, "boom", self.now)
            else:
                self.plan.reconfigured(name, self.now)
        elif fails:
            self.pending += self.plan.unhealthy(name, "ill", self.now)
        else:
            self.plan.healthy(name, self.now)

    def disturb(self) -> None:
        roll = self.dice.random()
        if roll < 0.3:
            self.deploy()
        elif roll < 0.6:
            self.plan.scale(self.dice.randint(0, 6))
        elif self.plan.replicas:
            name = self.dice.choice(sorted(self.plan.replicas))
            self.pending += self.plan.died(name, "killed", self.now)

    def check(self) -> None:
        plan = self.plan
        assert plan.target is not None
        live = [row for row in plan.replicas.values() if row.state != STOPPING]
        mine = [row.rank for row in live if row.version == plan.target.version]
        assert len(mine) == len(set(mine)), "two replicas have one rank"
        for row in plan.running():
            assert row.state != STOPPING

    def settle(self) -> None:
        """Once nothing fails any more, a plan reaches its target, or says that it gave up."""
        self.plan.deploy(target("last", 3))
        for _ in range(400):
            self.now += 10
            self.pending += self.plan.step(self.now)
            while self.pending:
                self.finish(well=True)
        assert versions(self.plan) == ["last"] * 3
        assert self.plan.status == DeploymentStatus.HEALTHY
        self.plan.delete()
        for _ in range(5):
            self.pending += self.plan.step(self.now)
            while self.pending:
                self.finish(well=True)
        assert self.plan.is_gone()


def test_random_histories_keep_the_rules_and_end_where_they_should(seeds: range) -> None:
    for seed in seeds:
        try:
            Story(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
