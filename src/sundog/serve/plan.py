"""What should happen to the replicas of one deployment: events and a clock in, actions out.

::

    deploy · scale · delete ──┐
    started · failed · died ──┼──► DeploymentPlan ──step(now, room)──► Start · Stop · Reconfigure
    health · numbers ─────────┘

Owns the replicas' states, the deployment's status and the rules: how many replicas run, how a new version replaces
an old one, when it is rolled back, when a start is tried again. Pure: no I/O, no clock and no dice of its own, so
that a seeded simulation can play it (`tests/serve/test_plan.py`). The controller (`controller.py`) carries events
in and actions out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sundog.serve.config import count_of, share_of
from sundog.serve.deployment import DeploymentConfig
from sundog.serve.gang import GangContext
from sundog.serve.rows import (
    DeploymentID,
    DeploymentStatus,
    DeploymentStatusTrigger,
    ReplicaID,
    ReplicaState,
)

if TYPE_CHECKING:
    from sundog.plain import JsonObject

HEALTH_FAILURES_MAX = 3
TRIES_A_REPLICA = 3
BACKOFF_MAX_S = 64.0
_S, _T, _R = DeploymentStatus, DeploymentStatusTrigger, ReplicaState


@dataclass
class DeploymentTarget:
    """A version of a deployment, with its options."""

    version: str
    config: DeploymentConfig
    num_replicas: int
    code_key: str = ""
    process: JsonObject = field(default_factory=dict)  # options of the replicas' processes
    revision: int = 0  # of the options that need no new process


@dataclass
class ReplicaRow:
    """One replica."""

    id: ReplicaID
    version: str
    rank: int
    state: ReplicaState = ReplicaState.STARTING
    since: float = 0.0
    told: tuple[int, int, int] = (0, 0, 0)  # revision, rank and number of replicas that the replica knows
    failures: int = 0
    next_check: float = 0.0
    is_checking: bool = False
    is_refusing: bool = False  # the replica takes no more requests from any sender
    gang: GangContext | None = None
    requests: int = 0
    errors: int = 0
    seconds: float = 0.0
    started_s: float = 0.0  # by the wall clock, for people


@dataclass
class Start:
    """Make a replica."""

    row: ReplicaRow
    target: DeploymentTarget


@dataclass
class Stop:
    """End a replica: at once, or when its requests have ended."""

    row: ReplicaRow
    graceful: bool


@dataclass
class Reconfigure:
    """Tell a replica its new options."""

    row: ReplicaRow
    target: DeploymentTarget


@dataclass
class Check:
    """Ask a replica for its health."""

    row: ReplicaRow


Action = Start | Stop | Reconfigure | Check


class DeploymentPlan:
    """The replicas of one deployment, and what should become of them.

    Args:
        new_name: makes a name for a replica that no other has.
    """

    def __init__(self, deployment: DeploymentID, new_name: Callable[[], str]) -> None:
        self.id = deployment
        self._new_name = new_name
        self.target: DeploymentTarget | None = None
        self.previous: DeploymentTarget | None = None  # the target before the present update, which ran well
        self.replicas: dict[str, ReplicaRow] = {}
        self.status = _S.UPDATING
        self.trigger = _T.CONFIG_UPDATE_STARTED
        self.message = ""
        self.is_deleting = False
        self.is_promoted = True  # no canary, or one that may take over
        self.start_failures = 0
        self.has_run = False  # a replica of the present version has run
        self.retry_at = 0.0
        self.rolled_back = ""  # the reason, if the last update was rolled back
        self.usual = (0, 0.0)  # requests of the previous version, and their seconds
        self.usual_of: frozenset[str] = frozenset()  # the replicas of these requests, even if they are gone

    # ------------------------------------------------------------------ what users want
    def deploy(self, target: DeploymentTarget) -> None:
        """Run this version, or these options, from now on."""
        old = self.target
        is_new = old is None or old.version != target.version
        if old is not None and is_new and self.has_run:
            self.previous = old
            self.usual = self._answered(old.version)
            self.usual_of = frozenset(
                name for name, each in self.replicas.items() if each.version == old.version
            )
        elif old is None:
            self.previous = None
        count = None if old is None or is_new else old.num_replicas
        self.target = target
        self.is_deleting = False
        self.rolled_back = ""
        self.message = ""
        if is_new:
            self.has_run = False
            self.is_promoted = share_of(target.config.rolling_update_config.canary) is None or not self._old()
        self.start_failures, self.retry_at = 0, 0.0
        self.trigger = _T.CONFIG_UPDATE_STARTED
        if count is not None and count != target.num_replicas and self.status == _S.HEALTHY:
            self.status = _S.UPSCALING if target.num_replicas > count else _S.DOWNSCALING
        else:
            self.status = _S.UPDATING

    def scale(self, count: int) -> None:
        """The autoscaler, or a scaler of the user's, wants another number of replicas."""
        target = self.target
        if target is None or self.is_deleting or target.num_replicas == count:
            return
        if self.status in (_S.HEALTHY, _S.UPSCALING, _S.DOWNSCALING):
            self.status = _S.UPSCALING if count > target.num_replicas else _S.DOWNSCALING
            self.trigger = _T.AUTOSCALING
        target.num_replicas = count

    def delete(self) -> None:
        """End all replicas."""
        self.is_deleting = True
        self.status, self.trigger, self.message = _S.UPDATING, _T.DELETING, ""

    def promote(self) -> None:
        """A canary may take over."""
        self.is_promoted = True

    def roll_back(self, why: str) -> bool:
        """Return to the version before; False if there is none."""
        back = self.previous
        if back is None or self.target is None:
            return False
        self.target, self.previous = back, None
        self.rolled_back = why
        self.has_run = True
        self.is_promoted = True
        self.start_failures, self.retry_at = 0, 0.0
        self.status, self.trigger = _S.DEPLOY_FAILED, _T.REPLICA_STARTUP_FAILED
        self.message = f"Rolled back to the previous version: {why}"
        return True

    # ------------------------------------------------------------------ what happened
    def started(self, name: str, now: float) -> None:
        """A replica runs."""
        row = self.replicas.get(name)
        if row is None or row.state not in (_R.STARTING, _R.RECOVERING):
            return
        row.state, row.since = _R.RUNNING, now
        assert self.target is not None
        row.next_check = now + self.target.config.health_check_period_s
        if row.version == self.target.version:
            self.has_run = True
            self.start_failures, self.retry_at = 0, 0.0

    def start_failed(self, name: str, error: str, now: float) -> None:
        """A replica could not start: its constructor raised, or its first health check failed."""
        row = self.replicas.pop(name, None)
        if row is None or self.target is None:
            return
        if row.gang is not None:
            self._end_gang(row)
        if row.version != self.target.version or self.is_deleting:
            return
        self.start_failures += 1
        limit = min(
            self.target.config.max_constructor_retry_count, TRIES_A_REPLICA * max(1, self.target.num_replicas)
        )
        if self.has_run:
            self.retry_at = now + min(BACKOFF_MAX_S, 2.0 ** min(10, self.start_failures - 1) / 4)
            self.status, self.trigger = _S.UNHEALTHY, _T.REPLICA_STARTUP_FAILED
            self.message = f"Starting a replica raised an error; Serve tries again. Error:\n{error}"
            return
        told = (
            f"No replica of this deployment started in {self.start_failures} tries. Look at its constructor "
            f"and its first health check; the controller's log has more. Error:\n{error}"
        )
        if self.start_failures >= limit:
            if not self.roll_back(told):
                self.status, self.trigger, self.message = _S.DEPLOY_FAILED, _T.REPLICA_STARTUP_FAILED, told
        else:
            left = limit - self.start_failures
            self.message = f"Starting a replica raised an error; tries left: {left}. Error:\n{error}"
            self.trigger = _T.REPLICA_STARTUP_FAILED

    def healthy(self, name: str, now: float) -> None:
        """A replica answered its health check."""
        row = self.replicas.get(name)
        if row is not None and self.target is not None:
            row.failures, row.is_checking = 0, False
            row.next_check = now + self.target.config.health_check_period_s

    def unhealthy(self, name: str, error: str, now: float) -> list[Action]:
        """A health check failed or was late."""
        row = self.replicas.get(name)
        if row is None or row.state not in (_R.RUNNING, _R.UPDATING) or self.target is None:
            return []
        row.failures += 1
        row.is_checking = False
        row.next_check = now + self.target.config.health_check_period_s
        if row.failures < HEALTH_FAILURES_MAX:
            return []
        self._fell_ill(f"A replica's health check failed: {error}")
        return [self._stop(row, now, False), *self._end_gang(row, now)]

    def died(self, name: str, cause: str, now: float) -> list[Action]:
        """A replica's process is gone."""
        row = self.replicas.pop(name, None)
        if row is None:
            return []
        if row.state in (_R.STARTING, _R.RECOVERING):
            self.replicas[name] = row
            self.start_failed(name, cause, now)
            return []
        if row.state != _R.STOPPING and not self.is_deleting:
            self._fell_ill(f"A replica died: {cause}")
        return self._end_gang(row, now)

    def refusing(self, name: str) -> None:
        """A replica that is to end takes no more requests."""
        row = self.replicas.get(name)
        if row is not None:
            row.is_refusing = True

    def stopped(self, name: str) -> None:
        """A replica that was told to end has."""
        self.replicas.pop(name, None)

    def reconfigured(self, name: str, now: float) -> None:
        """A replica took its new options."""
        row = self.replicas.get(name)
        if row is not None and row.state == _R.UPDATING:
            row.state, row.since = _R.RUNNING, now

    def reconfigure_failed(self, name: str, error: str, now: float) -> list[Action]:
        """The user's `reconfigure` raised: the replica is replaced, and counts as one that could not start."""
        row = self.replicas.get(name)
        if row is None or self.target is None:
            return []
        self.has_run = False
        stop = self._stop(row, now, False)
        self.start_failures += 1
        told = f"A replica failed to be reconfigured. Error:\n{error}"
        self.status, self.trigger, self.message = _S.UPDATING, _T.REPLICA_STARTUP_FAILED, told
        return [stop]

    def observe(self, name: str, requests: int, errors: int, seconds: float) -> None:
        """Requests that a replica has answered."""
        row = self.replicas.get(name)
        if row is not None:
            row.requests += requests
            row.errors += errors
            row.seconds += seconds
        if name in self.usual_of:  # a report may arrive after the end of its replica
            self.usual = (self.usual[0] + requests, self.usual[1] + seconds)

    def _fell_ill(self, why: str) -> None:
        if self.status != _S.DEPLOY_FAILED:
            self.status, self.trigger = _S.UNHEALTHY, _T.HEALTH_CHECK_FAILED
            self.message = (
                f"{why} The deployment stays UNHEALTHY until that replica is healthy or you deploy again."
            )

    def _end_gang(self, row: ReplicaRow, now: float = 0.0) -> list[Action]:
        """A gang fails as a whole."""
        if row.gang is None:
            return []
        return [
            self._stop(each, now, False)
            for each in self._live()
            if each.gang is not None and each.gang.gang_id == row.gang.gang_id and each is not row
        ]

    # ------------------------------------------------------------------ what to do
    def _live(self) -> list[ReplicaRow]:
        return [each for each in self.replicas.values() if each.state != _R.STOPPING]

    def _old(self) -> list[ReplicaRow]:
        assert self.target is not None
        return [each for each in self._live() if each.version != self.target.version]

    def _stop(self, row: ReplicaRow, now: float, graceful: bool) -> Stop:
        row.state, row.since = _R.STOPPING, now
        return Stop(row, graceful)

    def is_gone(self) -> bool:
        """Whether nothing of a deleted deployment is left."""
        return self.is_deleting and not self.replicas

    def step(self, now: float, room: int | None = None) -> list[Action]:
        """What to do now. `room`: for how many more replicas there are resources, if that is known."""
        if self.target is None:
            return []
        if self.is_deleting:
            return [self._stop(each, now, True) for each in self._live()]
        self._judge()
        old = self._old()
        actions = self._roll(old, now, room) if old else self._fit(now)
        actions += self._reconfigure(now)
        actions += self._checks(now)
        self._settle(old)
        return actions

    def _may_start(self, now: float) -> bool:
        if self.status == _S.DEPLOY_FAILED and not self.has_run:
            return False
        return now >= self.retry_at

    def _fit(self, now: float) -> list[Action]:
        """One version: as many replicas as there should be."""
        assert self.target is not None
        live = self._live()
        missing = self.target.num_replicas - len(live)
        if missing > 0:
            return self._starts(missing, now) if self._may_start(now) else []
        if missing < 0:
            last = sorted(live, key=lambda each: (each.state == _R.RUNNING, -each.rank))
            return [self._stop(each, now, True) for each in last[:-missing]]
        return []

    def _roll(self, old: list[ReplicaRow], now: float, room: int | None) -> list[Action]:
        """Two versions: more of the new one, fewer of the old one, and enough of both together."""
        target = self.target
        assert target is not None
        wanted, rules = target.num_replicas, target.config.rolling_update_config
        live = self._live()
        new = [each for each in live if each.version == target.version]
        surge, missing = count_of(rules.max_surge, wanted), count_of(rules.max_unavailable, wanted)
        surge = max(surge, math.ceil(target.config.max_surge_percent * wanted / 100))
        if surge == 0 and missing == 0:
            surge = 1
        share = share_of(rules.canary)
        limit = wanted if self.is_promoted or share is None else max(1, math.ceil(share * wanted))
        needed = limit - len(new)
        starts = max(0, min(needed, wanted + max(1, surge) - len(live)))
        has_room = room is None or room > 0
        if room is not None:
            starts = min(starts, room)
        actions: list[Action] = []
        if starts and self._may_start(now):
            actions += self._starts(starts, now)
        if not self.is_promoted:
            return actions
        ready = [each for each in live if each.state in (_R.RUNNING, _R.UPDATING)]
        spare = len(ready) - (wanted - missing)
        idle = [each for each in old if each.state not in (_R.RUNNING, _R.UPDATING)]
        busy = sorted((each for each in old if each not in idle), key=lambda each: -each.rank)
        if needed > 0 and not has_room and not any(each.state == _R.STARTING for each in new):
            spare = max(spare, math.ceil(target.config.rolling_update_percentage * wanted), 1)
        if needed > 0 and not self._may_start(now):
            spare, idle = 0, []
        return actions + [self._stop(each, now, True) for each in [*idle, *busy[: max(0, spare)]]]

    def _starts(self, count: int, now: float) -> list[Action]:
        target = self.target
        assert target is not None
        taken = {each.rank for each in self._live() if each.version == target.version}
        free = [rank for rank in range(target.num_replicas + count) if rank not in taken]
        gang = target.config.gang_scheduling_config
        if gang is not None:
            count -= count % gang.gang_size
        rows = []
        for rank in free[:count]:
            name = self._new_name()
            row = ReplicaRow(ReplicaID(name, self.id), target.version, rank, since=now)
            row.told = (target.revision, rank, target.num_replicas)
            rows.append(row)
        if gang is not None:
            for first in range(0, len(rows), gang.gang_size):
                members = rows[first : first + gang.gang_size]
                gang_id, names = self._new_name(), [each.id.unique_id for each in members]
                for index, row in enumerate(members):
                    row.gang = GangContext(gang_id, index, len(members), names)
        for row in rows:
            self.replicas[row.id.unique_id] = row
        return [Start(row, target) for row in rows]

    def _reconfigure(self, now: float) -> list[Action]:
        """Replicas that do not know their options, rank or number yet."""
        target = self.target
        assert target is not None
        mine = [each for each in self._live() if each.version == target.version]
        if len(mine) == target.num_replicas and {each.rank for each in mine} != set(range(len(mine))):
            for rank, row in enumerate(sorted(mine, key=lambda each: each.rank)):
                row.rank = rank
        actions: list[Action] = []
        for row in mine:
            told = (target.revision, row.rank, target.num_replicas)
            if row.state == _R.RUNNING and row.told != told:
                row.told = told
                row.state, row.since = _R.UPDATING, now
                actions.append(Reconfigure(row, target))
        return actions

    def _checks(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for row in self._live():
            if row.state == _R.RUNNING and not row.is_checking and now >= row.next_check:
                row.is_checking = True
                actions.append(Check(row))
        return actions

    def _judge(self) -> None:
        """Roll an update back whose requests fail, or take too long, more than its rules allow."""
        target = self.target
        if target is None or self.previous is None:
            return
        rules = target.config.rolling_update_config
        new = [each for each in self.replicas.values() if each.version == target.version]
        asked = sum(each.requests for each in new)
        if asked < rules.min_requests:
            return
        failed = sum(each.errors for each in new) / asked
        if rules.max_error_rate is not None and failed > rules.max_error_rate:
            self.roll_back(f"{failed:.0%} of its requests failed, more than {rules.max_error_rate:.0%}.")
            return
        # Replicas of the previous version may be gone; the requests that they answered count anyway.
        before, seconds = max(self.usual, self._answered(self.previous.version))
        if rules.max_latency_ratio is not None and before >= rules.min_requests:
            mean = sum(each.seconds for each in new) / asked
            usual = seconds / before
            if mean > usual * rules.max_latency_ratio:
                self.roll_back(
                    f"its requests took {mean * 1000:.1f} ms, {mean / usual:.1f} times as long as before."
                )

    def _answered(self, version: str) -> tuple[int, float]:
        rows = [each for each in self.replicas.values() if each.version == version]
        return sum(each.requests for each in rows), sum(each.seconds for each in rows)

    def _settle(self, old: list[ReplicaRow]) -> None:
        """The status, once all is as it should be."""
        target = self.target
        assert target is not None
        live = self._live()
        ready = [each for each in live if each.state == _R.RUNNING and each.version == target.version]
        share = share_of(target.config.rolling_update_config.canary)
        if not self.is_promoted and share is not None:
            wanted = max(1, math.ceil(share * target.num_replicas))
            is_done = len(ready) >= wanted
        else:
            is_done = len(ready) == len(live) == target.num_replicas and not self._old()
        # A client that learns that the update is done must not meet the old version any more.
        is_done = is_done and all(
            row.is_refusing for row in self.replicas.values() if row.state == _R.STOPPING
        )
        if not is_done or self.rolled_back or self.status == _S.DEPLOY_FAILED:
            return
        finished = {
            _S.UPSCALING: _T.UPSCALE_COMPLETED,
            _S.DOWNSCALING: _T.DOWNSCALE_COMPLETED,
            _S.UPDATING: _T.CONFIG_UPDATE_COMPLETED,
        }
        if self.status != _S.HEALTHY:
            self.trigger = finished.get(self.status, self.trigger)
            self.status, self.message = _S.HEALTHY, ""

    # ------------------------------------------------------------------ for the others
    def running(self) -> list[ReplicaRow]:
        """Replicas that take requests."""
        return [each for each in self.replicas.values() if each.state in (_R.RUNNING, _R.UPDATING)]

    def share(self, row: ReplicaRow) -> float:
        """Which share of the requests a replica's version should get; 1 unless it is a canary."""
        if self.is_promoted or self.target is None or row.version != self.target.version:
            return 1.0
        return share_of(self.target.config.rolling_update_config.canary) or 1.0

    def counts(self) -> dict[ReplicaState, int]:
        """How many replicas are in each state."""
        found: dict[ReplicaState, int] = {}
        for row in self.replicas.values():
            found[row.state] = found.get(row.state, 0) + 1
        return found
