"""Wants that an owner sent before it had read all that it had been granted: what was on its way counts as well."""

from __future__ import annotations

import pytest

from sundog.state.leases import Grant, Instruction, Leases, LeaseSpec

NODE = b"node"
A, B = b"owner-a", b"owner-b"
CPU = LeaseSpec((("CPU", 1.0),), "env")
HALF = LeaseSpec((("CPU", 0.5),), "env")


@pytest.fixture
def leases() -> Leases:
    made = Leases(starting_max=8, worker_max=0)
    made.add_node(NODE, {"CPU": 6.0})
    for n in range(6):
        made.worker_started(f"w{n}".encode(), NODE, "env", 0.0)
    return made


def grants(out: list[Instruction]) -> list[Grant]:
    return [told for told in out if isinstance(told, Grant)]


def granted(leases: Leases, count: int, last_grant: int, key: str = "f") -> list[Grant]:
    return grants(leases.want(A, key, CPU, count, 0.0, last_grant=last_grant))


def test_four_tasks_get_four_leases_though_the_first_was_granted_before_the_others_were_wanted(
    leases: Leases,
) -> None:
    [first] = granted(leases, 1, last_grant=0)
    assert len(granted(leases, 4, last_grant=0)) == 3, "the owner had not read the first grant"
    assert not leases.table(0.0) and leases.lease_count() == 4
    assert first.number == 1


def test_of_several_wants_before_one_grant_is_read_each_sets_the_number_anew(leases: Leases) -> None:
    assert [len(granted(leases, count, last_grant=0)) for count in (1, 2, 3, 3, 2)] == [1, 1, 1, 0, 0]


def test_a_grant_that_was_read_counts_no_more(leases: Leases) -> None:
    [first] = granted(leases, 1, last_grant=0)
    assert len(granted(leases, 4, last_grant=first.number)) == 4


def test_a_lease_that_waits_for_its_worker_is_not_counted_twice() -> None:
    leases = Leases(starting_max=8, worker_max=0)
    leases.add_node(NODE, {"CPU": 6.0})
    granted(leases, 2, last_grant=0)
    leases.worker_started(b"w0", NODE, "env", 0.1)
    granted(leases, 3, last_grant=0)
    assert leases.available()["CPU"] == 3, "one on its way, two wait for workers"


def test_the_last_grant_may_be_one_of_another_key(leases: Leases) -> None:
    granted(leases, 1, last_grant=0)
    [other] = granted(leases, 1, last_grant=0, key="g")
    assert len(granted(leases, 2, last_grant=other.number)) == 2, "what came before it has been read as well"
    assert len(granted(leases, 2, last_grant=other.number, key="g")) == 2


def test_grants_of_other_owners_and_keys_are_not_taken_off(leases: Leases) -> None:
    leases.want(B, "f", CPU, 1, 0.0, last_grant=0)
    granted(leases, 1, last_grant=0, key="g")
    assert len(granted(leases, 2, last_grant=0)) == 2


def test_a_grant_of_the_demand_that_a_key_had_before_is_not_taken_off(leases: Leases) -> None:
    granted(leases, 1, last_grant=0)
    assert len(grants(leases.want(A, "f", HALF, 2, 0.0, last_grant=0))) == 2


def test_who_reads_grants_at_once_gets_as_many_as_it_asks_for(leases: Leases) -> None:
    granted(leases, 1, last_grant=0)
    assert len(grants(leases.want(A, "f", CPU, 2, 0.0))) == 2


def test_when_fewer_are_wanted_than_are_on_their_way_nothing_waits(leases: Leases) -> None:
    granted(leases, 3, last_grant=0)
    assert not granted(leases, 1, last_grant=0) and not leases.table(0.0)


def test_a_withdrawn_want_stays_withdrawn(leases: Leases) -> None:
    granted(leases, 3, last_grant=0)
    granted(leases, 0, last_grant=0)
    assert not leases.table(0.0)


def test_a_worker_that_died_with_its_grant_on_its_way_is_replaced(leases: Leases) -> None:
    [first] = granted(leases, 1, last_grant=0)
    leases.worker_died(first.worker, 0.1)
    assert len(granted(leases, 1, last_grant=0)) == 1


def test_a_worker_that_was_told_to_stop_with_its_grant_on_its_way_is_replaced(leases: Leases) -> None:
    [first] = granted(leases, 1, last_grant=0)
    leases.release(first.lease, 0.1, reusable=False)
    assert len(granted(leases, 1, last_grant=0)) == 1


def test_a_node_that_was_lost_with_a_grant_on_its_way_is_made_up_for(leases: Leases) -> None:
    granted(leases, 1, last_grant=0)
    leases.add_node(b"other", {"CPU": 6.0})
    leases.worker_started(b"there", b"other", "env", 0.1)
    leases.remove_node(NODE, 0.2)
    assert len(granted(leases, 1, last_grant=0)) == 1


def test_a_lease_that_was_asked_back_before_it_was_read_is_made_up_for() -> None:
    leases = Leases(starting_max=8, worker_max=0)
    leases.add_node(NODE, {"CPU": 2.0})
    for n in range(3):
        leases.worker_started(f"w{n}".encode(), NODE, "env", 0.0)
    assert len(granted(leases, 2, last_grant=0)) == 2
    leases.want(B, "g", CPU, 1, 0.0, last_grant=0)
    asked = leases.tick(5.0)
    assert len(asked) == 1
    granted(leases, 2, last_grant=0)
    assert [row.count for row in leases.table(5.0) if row.owner == A] == [1], (
        "two wanted, one is on its way to stay"
    )


def test_a_grant_that_was_handed_back_counts_no_more(leases: Leases) -> None:
    [first] = granted(leases, 1, last_grant=0)
    leases.release(first.lease, 0.1)
    assert len(granted(leases, 1, last_grant=first.number)) == 1
