"""Placement groups: where bundles go, what removal does."""

from __future__ import annotations

import pytest

from sundog.state.bundles import Groups
from sundog.state.leases import (
    GROUP_REMOVED,
    Grant,
    GroupReady,
    GroupRemoved,
    Infeasible,
    Instruction,
    Leases,
    LeaseSpec,
    StopWorker,
)

N1, N2, N3 = b"node-1", b"node-2", b"node-3"
OWNER, PG = b"owner", b"group"


def cluster(*cpus: float) -> Leases:
    leases = Leases(starting_max=8, worker_max=0)
    for node_id, count in zip((N1, N2, N3), cpus, strict=False):
        leases.add_node(node_id, {"CPU": count, "GPU": 2}, {"name": node_id.decode()})
    return leases


def create(leases: Leases, strategy: str, *bundles: dict[str, float]) -> list[Instruction]:
    return leases.create_group(PG, list(bundles), strategy, OWNER, 0.0)


def places(leases: Leases) -> tuple[bytes | None, ...]:
    return leases.group_table()[0].nodes


def in_group(index: int = -1, cpus: float = 1.0) -> LeaseSpec:
    return LeaseSpec((("CPU", cpus),), "env", ("pg", PG, index))


ONE: dict[str, float] = {"CPU": 1}
TWO: dict[str, float] = {"CPU": 2}


def test_pack_uses_one_node_if_it_can() -> None:
    leases = cluster(1, 4)
    assert create(leases, "PACK", ONE, ONE, ONE) == [GroupReady(PG)]
    assert places(leases) == (N2, N2, N2)


def test_pack_uses_as_few_nodes_as_it_can_otherwise() -> None:
    leases = cluster(2, 3, 1)
    assert create(leases, "PACK", ONE, ONE, ONE, ONE, ONE) == [GroupReady(PG)]
    assert set(places(leases)) == {N1, N2}


def test_spread_uses_every_node_before_it_uses_one_twice() -> None:
    leases = cluster(4, 4)
    assert create(leases, "SPREAD", ONE, ONE, ONE) == [GroupReady(PG)]
    assert sorted(map(places(leases).count, (N1, N2))) == [1, 2]


def test_strict_pack_waits_for_one_node_with_room_for_all() -> None:
    leases = cluster(2, 2)
    assert create(leases, "STRICT_PACK", TWO, ONE) == []
    assert leases.group_table()[0].why.startswith("infeasible")
    assert leases.add_node(N3, {"CPU": 3}) == [GroupReady(PG)]
    assert places(leases) == (N3, N3)


def test_strict_spread_finds_the_one_matching_that_exists() -> None:
    leases = cluster(2, 1)
    assert create(leases, "STRICT_SPREAD", ONE, TWO) == [GroupReady(PG)]
    assert places(leases) == (N2, N1)


def test_strict_spread_waits_when_there_are_fewer_nodes_than_bundles() -> None:
    leases = cluster(4, 4)
    assert create(leases, "STRICT_SPREAD", ONE, ONE, ONE) == []
    assert leases.available() == leases.totals()
    assert leases.add_node(N3, {"CPU": 1}) == [GroupReady(PG)]


def test_a_bundle_goes_where_its_labels_say() -> None:
    leases = cluster(4, 4)
    leases.create_group(PG, [ONE, ONE], "PACK", OWNER, 0.0, label_selectors=[{"name": "node-2"}])
    assert places(leases)[0] == N2


def test_all_or_nothing_is_set_aside() -> None:
    leases = cluster(3)
    assert create(leases, "PACK", TWO, TWO) == []
    assert leases.available() == leases.totals()


def test_what_is_set_aside_is_not_available_to_others_but_to_leases_of_the_group() -> None:
    leases = cluster(2)
    create(leases, "PACK", TWO)
    assert leases.available()["CPU"] == 0
    leases.worker_started(b"w", N1, "env", 0.0)
    assert leases.want(OWNER, "outside", LeaseSpec((("CPU", 1.0),), "env"), 1, 0.0) == []
    (grant,) = leases.want(OWNER, "inside", in_group(0), 1, 0.0)
    assert isinstance(grant, Grant) and grant.worker == b"w"


def test_any_bundle_means_whichever_has_room() -> None:
    leases = cluster(4)
    create(leases, "PACK", ONE, ONE)
    for worker in (b"w1", b"w2", b"w3"):
        leases.worker_started(worker, N1, "env", 0.0)
    assert len(leases.want(OWNER, "f", in_group(), 3, 0.0)) == 2


def test_gpus_of_a_bundle_keep_their_ids() -> None:
    leases = cluster(4)
    leases.create_group(PG, [{"GPU": 1}, {"GPU": 1}], "PACK", OWNER, 0.0)
    for worker in (b"w1", b"w2"):
        leases.worker_started(worker, N1, "env", 0.0)
    ids = []
    for index in (0, 1):
        (grant,) = leases.want(OWNER, index, LeaseSpec((("GPU", 0.5),), "env", ("pg", PG, index)), 1, 0.0)
        assert isinstance(grant, Grant)
        ids.append(dict(grant.accelerators)["GPU"])
    assert ids == [(0,), (1,)]


def test_removal_stops_its_workers_and_fails_its_requests() -> None:
    leases = cluster(2)
    create(leases, "PACK", TWO)
    leases.worker_started(b"w", N1, "env", 0.0)
    leases.want(OWNER, "f", in_group(0), 3, 0.0)
    out = leases.remove_group(PG, 1.0)
    assert StopWorker(b"w", GROUP_REMOVED) in out and GroupRemoved(PG) in out
    assert [told.reason for told in out if isinstance(told, Infeasible)] == [GROUP_REMOVED]
    assert leases.available()["CPU"] == 1, "the worker has not died yet"
    leases.worker_died(b"w", 1.1)
    assert leases.available() == leases.totals()
    assert leases.remove_group(PG, 2.0) == []


def test_a_request_may_come_before_its_group() -> None:
    leases = cluster(2)
    leases.worker_started(b"w", N1, "env", 0.0)
    assert leases.want(OWNER, "f", in_group(0), 1, 0.0) == []
    assert "not known yet" in leases.table(0.0)[0].why
    ready, grant = create(leases, "PACK", TWO)
    assert ready == GroupReady(PG) and isinstance(grant, Grant)


@pytest.mark.parametrize(("index", "cpus"), [(5, 1.0), (0, 3.0), (-1, 3.0)])
def test_what_no_bundle_can_offer_is_infeasible(index: int, cpus: float) -> None:
    leases = cluster(4)
    create(leases, "PACK", TWO)
    (told,) = leases.want(OWNER, "f", in_group(index, cpus), 1, 0.0)
    assert isinstance(told, Infeasible) and PG.hex() in told.reason


def test_a_bundle_on_a_lost_node_finds_another_place() -> None:
    leases = cluster(2, 2)
    create(leases, "STRICT_SPREAD", ONE, ONE)
    assert leases.remove_node(N2, 1.0) == []
    assert leases.group_table()[0].state == "RESCHEDULING"
    assert leases.add_node(N3, {"CPU": 1}, now=2.0) == [GroupReady(PG)]
    assert set(places(leases)) == {N1, N3}


def test_a_group_ends_with_its_owner_unless_it_is_detached() -> None:
    leases = cluster(4)
    create(leases, "PACK", ONE)
    leases.create_group(b"detached", [ONE], "PACK", OWNER, 0.0, lifetime="detached")
    assert GroupRemoved(PG) in leases.owner_died(OWNER, 1.0)
    assert [row.state for row in leases.group_table()] == ["REMOVED", "CREATED"]


def test_a_blocked_worker_lends_its_cpu_within_its_bundle() -> None:
    leases = cluster(4)
    create(leases, "PACK", ONE)
    for worker in (b"w1", b"w2"):
        leases.worker_started(worker, N1, "env", 0.0)
    leases.want(OWNER, "f", in_group(0), 2, 0.0)
    held = leases.held(0.0)[0].worker
    (grant,) = leases.blocked(held, 1.0)
    assert isinstance(grant, Grant) and grant.worker != held
    leases.unblocked(held, 2.0)
    leases.owner_died(OWNER, 3.0)
    for worker in (b"w1", b"w2"):
        leases.worker_died(worker, 4.0)
    assert leases.available() == leases.totals()


def test_bad_groups_are_refused() -> None:
    groups = Groups()
    with pytest.raises(ValueError, match="STRICT_SPREAD"):
        groups.create(PG, [ONE], "SCATTER", OWNER, 0.0)
    with pytest.raises(ValueError, match="at least one bundle"):
        groups.create(PG, [], "PACK", OWNER, 0.0)
    with pytest.raises(ValueError, match="ask for something"):
        groups.create(PG, [{"CPU": 0}], "PACK", OWNER, 0.0)


def test_a_name_belongs_to_one_group_until_that_is_removed() -> None:
    leases = cluster(4)
    leases.create_group(PG, [ONE], "PACK", OWNER, 0.0, name="mine")
    assert leases.group_named("mine") == PG
    with pytest.raises(ValueError, match=PG.hex()):
        leases.create_group(b"second", [ONE], "PACK", OWNER, 0.0, name="mine")
    assert leases.group(b"second") is None
    leases.remove_group(PG, 1.0)
    row = leases.group(PG)
    assert row is not None and row.state == "REMOVED" and leases.group_named("mine") is None
    leases.create_group(b"second", [ONE], "PACK", OWNER, 2.0, name="mine")
    assert leases.group_named("mine") == b"second"


def test_bundles_give_resources_under_names_of_their_own() -> None:
    leases = cluster(4)
    create(leases, "PACK", ONE, TWO)
    name = PG.hex()
    assert leases.group_resources(free=False) == {
        f"CPU_group_0_{name}": 1,
        f"CPU_group_1_{name}": 2,
        f"CPU_group_{name}": 3,
        f"bundle_group_0_{name}": 1000,
        f"bundle_group_1_{name}": 1000,
        f"bundle_group_{name}": 2000,
    }
    leases.want(OWNER, 1, in_group(0), 1, 1.0)
    free = leases.group_resources(free=True)
    assert (free[f"CPU_group_0_{name}"], free[f"CPU_group_{name}"]) == (0, 2)
    assert free[f"bundle_group_0_{name}"] == 999.999
    leases.remove_group(PG, 2.0)
    assert leases.group_resources(free=False) == {}


# ---------------------------------------------------------------------- a label in common
def domains(*names: str) -> Leases:
    leases = Leases(starting_max=8, worker_max=0)
    for node_id, name in zip((N1, N2, N3), names, strict=True):
        leases.add_node(node_id, {"CPU": 1}, {"domain": name} if name else {})
    return leases


def create_in_domain(leases: Leases, *bundles: dict[str, float]) -> list[Instruction]:
    return leases.create_group(PG, list(bundles), "PACK", OWNER, 0.0, topology="domain")


def test_all_bundles_are_on_nodes_with_one_value_of_the_label() -> None:
    leases = domains("a", "b", "b")
    assert create_in_domain(leases, ONE, ONE) == [GroupReady(PG)]
    assert set(places(leases)) == {N2, N3}
    assert leases.group_table()[0].domain == "b"


def test_without_room_under_one_value_the_group_waits() -> None:
    leases = domains("a", "b", "")
    assert create_in_domain(leases, ONE, ONE) == []
    assert leases.group_table()[0].why.startswith("infeasible")
    assert GroupReady(PG) in leases.add_node(b"node-4", {"CPU": 1}, {"domain": "a"}, 1.0)


# ---------------------------------------------------------------------- many that are alike
def test_of_many_groups_that_are_alike_each_gets_its_place_in_turn() -> None:
    leases = cluster(1)
    ids = [b"group-%d" % number for number in range(20)]
    for pg_id in ids:
        leases.create_group(pg_id, [TWO], "PACK", OWNER, 0.0)
    leases.create_group(PG, [ONE], "PACK", OWNER, 0.0)
    assert [row.state for row in leases.group_table()].count("CREATED") == 1  # the one that differs
    out = leases.add_node(N2, {"CPU": 6}, {}, 1.0)
    assert [step for step in out if isinstance(step, GroupReady)] == [GroupReady(pg_id) for pg_id in ids[:3]]
    out = leases.remove_group(ids[0], 2.0)
    assert GroupReady(ids[3]) in out


def test_a_group_tells_how_often_and_how_long_a_place_was_looked_for() -> None:
    leases = cluster(1)
    create(leases, "PACK", TWO)
    assert (leases.group_table()[0].attempts, leases.group_table()[0].took_s) == (1, 0.0)
    leases.add_node(N2, {"CPU": 2}, {}, 3.0)
    assert leases.group_table()[0].took_s == 3.0
    leases.remove_node(N2, 4.0)
    assert (leases.group_table()[0].attempts, leases.group_table()[0].took_s) == (2, 0.0)
