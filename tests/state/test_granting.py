"""The tables behind the leases: what is kept, counted and dropped with each step."""

from __future__ import annotations

import pytest

from sundog.state import granting
from sundog.state.granting import Granting
from sundog.state.instructions import Grant, Infeasible, Instruction, LeaseSpec, StartWorker, StopWorker
from sundog.state.nodes import KnownNode, Worker
from sundog.state.resources import ResourcePool, demand_of
from sundog.state.shapes import Want

NODE, A, B = b"node", b"owner-a", b"owner-b"


class Tables(Granting):
    """Granting with one node, as `Leases` would have made it."""

    def __init__(self, cpus: float = 2.0, starting_max: int = 8, worker_max: int = 0) -> None:
        super().__init__(starting_max, worker_max)
        self.node = self._nodes[NODE] = KnownNode(NODE, ResourcePool(demand_of({"CPU": cpus})), {})
        self._epoch += 1

    def asks(
        self, owner: bytes, count: int, cpus: float = 1.0, env: str = "env"
    ) -> tuple[Want, list[Instruction]]:
        """A new request, and what follows from it."""
        spec = LeaseSpec((("CPU", cpus),), env)
        want = Want(owner, "f", self._shape(spec), "job", 0, 0.0, 0)
        self._wants.setdefault(owner, {})["f"] = want
        out: list[Instruction] = []
        self._set_count(want, count, 0.0, out)
        return want, out

    def comes(self, name: bytes, env: str = "env") -> list[Instruction]:
        """A worker that was started is up."""
        self._start_ended(self.node, env)
        worker = self._workers[name] = self.node.workers[name] = Worker(name, self.node, env)
        out: list[Instruction] = []
        self._offer(worker, 1.0, out)
        return out

    def free(self) -> float:
        return self._sum(None, free=True)["CPU"]


def test_resources_are_drawn_when_a_request_is_assigned_and_not_when_its_worker_is_up() -> None:
    tables = Tables()
    want, out = tables.asks(A, 3)
    assert out == [StartWorker(NODE, "env")] * 2, "there is room for two"
    assert tables.free() == 0 and want.unmet == 1 and len(want.pending) == 2
    [grant] = tables.comes(b"w")
    assert isinstance(grant, Grant) and grant.worker == b"w" and want.count == 2
    assert tables._held[A, "f"] == 1 and list(tables._owned[A]) == [grant.lease]


def test_the_last_grant_ends_the_request_and_an_unneeded_worker_idles() -> None:
    tables = Tables()
    tables.asks(A, 1)
    assert len(tables.comes(b"w")) == 1
    assert tables._wants == {} and not tables._waiting
    assert tables.comes(b"x") == [] and list(tables.node.idle) == [b"x"]


def test_a_lower_count_takes_back_the_latest_lease_without_a_worker() -> None:
    tables = Tables()
    want, _ = tables.asks(A, 2)
    first, _ = want.pending
    tables._set_count(want, 1, 1.0, [])
    assert list(want.pending) == [first] and tables.free() == 1
    assert tables._withdraw(want) and tables.free() == 2
    assert tables._wants == {} and not tables.node.leases and not tables.node.pending


def test_who_waits_longest_is_served_first_whatever_its_shape() -> None:
    tables = Tables(cpus=1)
    first, _ = tables.asks(A, 1)
    second, none = tables.asks(B, 1, cpus=0.5, env="b")
    third, _ = tables.asks(b"owner-c", 1, cpus=0.25, env="c")
    assert none == []
    out: list[Instruction] = []
    tables._set_count(first, 0, 1.0, out)
    assert out == [StartWorker(NODE, "b"), StartWorker(NODE, "c")]
    assert second.unmet == third.unmet == 0


def test_a_request_that_can_never_run_is_told_once() -> None:
    tables = Tables()
    want, out = tables.asks(A, 1, cpus=64)
    assert [type(each) for each in out] == [Infeasible]
    again: list[Instruction] = []
    tables._set_count(want, 2, 1.0, again)
    assert again == []


def test_the_gate_holds_back_one_owner_and_not_the_next() -> None:
    tables = Tables()
    tables.gate = lambda want: "memory is short" if want.owner == A else ""
    held, none = tables.asks(A, 1)
    assert none == [] and held.held_back == "memory is short"
    served, out = tables.asks(B, 1)
    assert out == [StartWorker(NODE, "env")] and served.unmet == 0
    tables.gate = None
    late: list[Instruction] = []
    tables._schedule_all(1.0, late)
    assert held.unmet == 0 and late == [StartWorker(NODE, "env")]


def test_no_more_workers_start_at_a_time_than_allowed_and_each_environment_has_its_turn() -> None:
    tables = Tables(cpus=8, starting_max=2)
    _, first = tables.asks(A, 5)
    tables.asks(B, 1, env="b")
    assert first == [StartWorker(NODE, "env")] * 2 and tables.node.starting_count == 2
    started: list[Instruction] = []
    for name in (b"1", b"2", b"3"):
        tables.comes(name)
        tables._start_workers(tables.node, 1.0, started)
    assert [each.env_key for each in started if isinstance(each, StartWorker)] == ["env", "b", "env"]


def test_a_full_node_ends_its_longest_idle_worker_for_another_environment() -> None:
    tables = Tables(cpus=4, worker_max=2)
    for name in (b"old", b"new"):
        tables.comes(name)
    _, out = tables.asks(A, 1, env="b")
    assert out == [StopWorker(b"old", "room for another environment")] + [StartWorker(NODE, "b")]
    assert tables._workers[b"old"].stopping and list(tables.node.idle) == [b"new"]


def test_a_forgotten_lease_leaves_no_row_behind() -> None:
    tables = Tables()
    tables.asks(A, 1)
    [grant] = tables.comes(b"w")
    assert isinstance(grant, Grant)
    lease = tables._leases[grant.lease]
    tables._forget(lease)
    assert not tables._leases and not tables._owned and not tables._held and not tables.node.leases
    assert tables.free() == 1, "its resources are the caller's business"


def test_a_worker_that_must_die_keeps_its_resources_until_then() -> None:
    tables = Tables()
    tables.asks(A, 1)
    [grant] = tables.comes(b"w")
    assert isinstance(grant, Grant)
    out: list[Instruction] = []
    tables._end_lease(tables._leases[grant.lease], "killed", out)
    assert out == [StopWorker(b"w", "killed")] and tables.free() == 1
    assert tables._leases[grant.lease].ended


def test_shapes_that_nobody_waits_for_are_dropped_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(granting, "SHAPES_KEPT", 3)
    tables = Tables(cpus=1)
    waits, _ = tables.asks(A, 5)
    for number in range(10):
        tables._shape(LeaseSpec((("CPU", 1.0),), f"env-{number}"))
    assert len(tables._shapes) <= 3 and waits.shape in tables._shapes.values()


def test_the_dead_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(granting, "GONE_KEPT", 2)
    tables = Tables()
    for name in (b"1", b"2", b"3"):
        tables._remember_gone(name)
    assert list(tables._gone) == [b"2", b"3"]
