"""Idle workers of a node: which is reused, which kinds do not mix, when none may be started."""

from __future__ import annotations

from sundog.state.lease_spec import LeaseSpec
from sundog.state.nodes import Backoff, KnownNode, Worker
from sundog.state.resources import ResourcePool, demand_of
from sundog.state.shapes import SpecQueue

PLAIN = SpecQueue(LeaseSpec((("CPU", 1.0),), "env"))
GPU = SpecQueue(LeaseSpec((("GPU", 1.0),), "env"))


def node() -> KnownNode:
    return KnownNode(b"node", ResourcePool(demand_of((("CPU", 4.0), ("GPU", 1.0)))), {})


def idle(where: KnownNode, name: bytes, owner: bytes = b"", env_key: str = "env", at: float = 0.0) -> Worker:
    made = Worker(name, where, env_key, last_owner=owner)
    where.workers[name] = made
    where.put_idle(made, at)
    return made


def test_the_worker_that_became_idle_last_is_reused_first() -> None:
    here = node()
    idle(here, b"cold")
    warm = idle(here, b"warm", at=1.0)

    assert here.take_idle(PLAIN, b"anyone") is warm
    assert list(here.idle) == [b"cold"]


def test_an_owner_gets_the_worker_that_it_had_before() -> None:
    here = node()
    mine = idle(here, b"mine", owner=b"me")
    idle(here, b"theirs", owner=b"them", at=1.0)

    assert here.take_idle(PLAIN, b"me") is mine


def test_a_worker_of_another_environment_or_kind_is_not_taken() -> None:
    here = node()
    idle(here, b"other", env_key="another")
    saw_gpus = idle(here, b"gpu")
    saw_gpus.with_gpu = True

    assert here.take_idle(PLAIN, b"") is None
    assert here.take_idle(GPU, b"") is saw_gpus


def test_a_worker_that_is_taken_off_is_on_no_list() -> None:
    here = node()
    gone = idle(here, b"gone", owner=b"me")

    assert here.drop_idle(gone) and not here.drop_idle(gone)
    assert not here.idle and here.take_idle(PLAIN, b"me") is None


def test_while_starts_fail_only_an_idle_worker_can_serve() -> None:
    here = node()
    here.backoffs["env"] = Backoff(failures=1, until=10.0)

    assert not here.can_serve(PLAIN, now=5.0)
    assert here.can_serve(PLAIN, now=10.0)
    idle(here, b"warm")
    assert here.can_serve(PLAIN, now=5.0)


def test_neither_blocked_nor_dying_workers_count_as_processes() -> None:
    here = node()
    for name in (b"1", b"2", b"3"):
        idle(here, name)
    here.blocked_count, here.stopping_count, here.starting_count = 1, 1, 2

    assert here.process_count() == 3
