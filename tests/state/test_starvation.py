"""Requests that wait too long: room is kept for the oldest, for a while, and leases are asked back on its behalf."""

from __future__ import annotations

from sundog.state.leases import Grant, Instruction, Leases, LeaseSpec, Reclaim
from sundog.state.starvation import PATIENCE_S, ROUND_S, WINDOW_S

NODE = b"node-1"
A, B, C = b"owner-a", b"owner-b", b"owner-c"
LATE = 2 * PATIENCE_S


def spec(cpus: float = 1.0, env_key: str = "env", *, permanent: bool = False) -> LeaseSpec:
    return LeaseSpec((("CPU", cpus),), env_key, permanent=permanent)


def full(owner: bytes = A, cpus: int = 4, *, permanent: bool = False) -> Leases:
    """A node whose CPUs one owner has, one by one."""
    leases = Leases(starting_max=8, worker_max=0, idle_worker_s=60.0, keep=1)
    leases.add_node(NODE, {"CPU": cpus})
    leases.want(owner, "f", spec(permanent=permanent), cpus, 0.0)
    for number in range(cpus):
        leases.worker_started(b"w%d" % number, NODE, "env", 0.0)
    return leases


def reclaims(out: list[Instruction]) -> list[Reclaim]:
    return [each for each in out if isinstance(each, Reclaim)]


def test_nothing_is_asked_back_within_the_patience() -> None:
    leases = full()
    leases.want(B, "g", spec(), 1, 0.0)
    assert reclaims(leases.tick(PATIENCE_S / 2)) == []


def test_as_many_leases_as_are_missing_are_asked_back_and_no_more() -> None:
    leases = full()
    leases.want(B, "g", spec(2), 1, 0.0)
    out = reclaims(leases.tick(LATE))
    assert len(out) == 2 and {each.owner for each in out} == {A}


def test_the_oldest_lease_is_asked_back_first() -> None:
    leases = full()
    leases.want(B, "g", spec(), 1, 0.0)
    assert [each.lease for each in reclaims(leases.tick(LATE))] == [1]


def test_a_lease_is_asked_back_once() -> None:
    leases = full(cpus=1)
    leases.want(B, "g", spec(), 1, 0.0)
    assert len(reclaims(leases.tick(LATE))) == 1
    assert reclaims(leases.tick(LATE + 2 * ROUND_S)) == []


def test_what_is_given_back_goes_to_the_request_that_starved() -> None:
    leases = full()
    leases.want(B, "g", spec(2), 1, 0.0)
    out = reclaims(leases.tick(LATE))
    granted: list[Instruction] = []
    for each in out:
        granted += leases.release(each.lease, LATE)
        leases.want(A, "f", spec(), 4, LATE)  # the greedy owner asks again at once
    assert [each.owner for each in granted if isinstance(each, Grant)] == [B]


def test_actors_are_never_asked_back_and_no_room_is_kept_that_they_will_not_give() -> None:
    leases = full(permanent=True)
    leases.want(B, "g", spec(), 1, 0.0)
    assert reclaims(leases.tick(LATE)) == []


def test_an_owner_that_only_wants_more_takes_from_those_alone_that_have_more() -> None:
    leases = full(A, 2)
    leases.release(2, 0.0)
    leases.want(B, "g", spec(), 1, 0.0)
    assert leases.lease_count() == 2
    leases.want(B, "g", spec(), 1, 0.1)
    assert reclaims(leases.tick(0.1 + LATE)) == [], "each has one: nobody has to give"


def test_two_owners_that_have_nothing_are_both_served_in_turn() -> None:
    leases = full()
    leases.want(B, "g", spec(4, "env-b"), 1, 0.0)
    leases.want(C, "h", spec(4, "env-c"), 1, 0.05)
    assert len(reclaims(leases.tick(LATE))) == 4
    (first,) = [row for row in leases.table(LATE) if row.owner == C]
    assert first.why.startswith("waiting for")


def test_a_reservation_that_lasts_too_long_pauses_so_that_others_run() -> None:
    leases = full(A, 2)
    leases.want(B, "g", spec(2, "env-b"), 1, 0.0)
    leases.tick(LATE)
    leases.release(1, LATE)
    assert leases.want(C, "h", spec(1, "env"), 1, LATE) == [], "the free CPU is kept"
    now = LATE
    granted: list[Instruction] = []
    while not granted and now < 10 * WINDOW_S:
        now += ROUND_S
        granted = [each for each in leases.tick(now) if isinstance(each, Grant)]
    assert [each.owner for each in granted if isinstance(each, Grant)] == [C]
