"""The scheduler machine, event by event."""

from __future__ import annotations

import pytest

from sundog.state.leases import (
    FIRST_BACKOFF_S,
    Grant,
    Infeasible,
    Instruction,
    Leases,
    LeaseSpec,
    Reclaim,
    StartWorker,
    StopWorker,
)

NODE, OTHER = b"node-1", b"node-2"
A, B = b"owner-a", b"owner-b"


def spec(cpus: float = 1.0, env_key: str = "env", **more: float) -> LeaseSpec:
    return LeaseSpec(tuple(sorted({"CPU": cpus, **more}.items())), env_key)


def machine(cpus: float = 2.0, *, workers: int = 0, starting_max: int = 8, worker_max: int = 0) -> Leases:
    leases = Leases(starting_max=starting_max, worker_max=worker_max, idle_worker_s=60.0, keep=1)
    leases.add_node(NODE, {"CPU": cpus, "GPU": 2})
    for n in range(workers):
        leases.worker_started(f"w{n}".encode(), NODE, "env", 0.0)
    return leases


def grants(out: list[Instruction]) -> list[Grant]:
    return [told for told in out if isinstance(told, Grant)]


def the_grant(out: list[Instruction]) -> Grant:
    (grant,) = grants(out)
    return grant


def test_a_request_that_fits_starts_a_worker_and_is_granted_when_it_is_up() -> None:
    leases = machine()
    assert leases.want(A, "f", spec(), 1, 0.0) == [StartWorker(NODE, "env")]
    assert leases.table(0.1)[0].why == "worker starting"
    out = leases.worker_started(b"w", NODE, "env", 0.2)
    assert out == [Grant(1, A, "f", b"w", NODE, (("CPU", 1.0),), (), 1)]
    assert leases.available()["CPU"] == 1 and not leases.table(0.2)


def test_setting_the_same_count_again_changes_nothing() -> None:
    leases = machine(workers=1)
    assert len(leases.want(A, "f", spec(), 2, 0.0)) == 2  # one grant, one start
    assert leases.want(A, "f", spec(), 1, 0.0) == []


def test_zero_withdraws_and_gives_back_what_was_drawn() -> None:
    leases = machine()
    leases.want(A, "f", spec(), 5, 0.0)
    assert leases.available()["CPU"] == 0
    leases.want(A, "f", spec(), 0, 0.1)
    assert leases.available()["CPU"] == 2 and not leases.table(0.1)
    assert leases.worker_started(b"w", NODE, "env", 0.2) == [], "it idles"


def test_withdrawing_makes_room_for_who_waits() -> None:
    leases = machine()
    leases.want(A, "f", spec(2), 1, 0.0)
    assert leases.want(B, "g", spec(2, "env-b"), 1, 0.0) == []
    assert leases.want(A, "f", spec(2), 0, 0.1) == [StartWorker(NODE, "env-b")]


def test_asking_for_fewer_makes_room_for_who_waits() -> None:
    leases = machine()
    leases.want(A, "f", spec(), 2, 0.0)
    assert leases.want(B, "g", spec(env_key="env-b"), 1, 0.0) == []
    assert leases.want(A, "f", spec(), 1, 0.1) == [StartWorker(NODE, "env-b")]


def test_a_key_with_another_spec_replaces_the_first() -> None:
    leases = machine()
    leases.want(A, "f", spec(1), 1, 0.0)
    leases.want(A, "f", spec(2), 1, 0.0)
    assert [row.spec for row in leases.table(0.0)] == [spec(2)]
    assert leases.available()["CPU"] == 0


def test_released_workers_are_reused_the_warmest_first_and_by_their_last_owner() -> None:
    leases = machine(cpus=3, workers=3)
    one, two, three = grants(leases.want(A, "f", spec(), 2, 0.0) + leases.want(B, "g", spec(), 1, 0.0))
    for grant in (two, three, one):
        leases.release(grant.lease, 1.0)
    assert the_grant(leases.want(B, "g", spec(), 1, 2.0)).worker == three.worker
    assert the_grant(leases.want(A, "f", spec(), 1, 2.0)).worker == one.worker
    assert the_grant(leases.want(b"new", "h", spec(), 1, 2.0)).worker == two.worker


def test_a_worker_started_ahead_of_need_serves_the_first_request() -> None:
    leases = machine(starting_max=1)
    assert leases.prestart(NODE, "env", 0.0) == [StartWorker(NODE, "env")]
    assert leases.prestart(NODE, "env", 0.0) == [], "no more at a time than allowed"
    assert leases.want(A, "f", spec(), 1, 0.1) == [], "one is on its way"
    assert the_grant(leases.worker_started(b"w", NODE, "env", 0.2)).worker == b"w"


def test_workers_are_not_shared_between_environments() -> None:
    leases = machine(workers=1)
    assert leases.want(A, "f", spec(env_key="other"), 1, 0.0) == [StartWorker(NODE, "other")]


def test_a_worker_that_ends_by_itself_serves_nobody_after_its_lease() -> None:
    leases = machine(workers=1)
    grant = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    leases.retire_holder(grant.lease)
    assert leases.release(grant.lease, 1.0) == [StopWorker(grant.worker, "retired")]
    assert leases.want(B, "g", spec(), 1, 2.0) == [StartWorker(NODE, "env")]


def test_a_worker_that_is_not_reusable_ends_and_only_then_are_its_resources_free() -> None:
    leases = machine(workers=1)
    grant = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    assert leases.release(grant.lease, 1.0, reusable=False) == [StopWorker(grant.worker, "not reusable")]
    assert leases.available()["CPU"] == 1
    assert leases.release(grant.lease, 1.0) == []
    leases.worker_died(grant.worker, 1.1)
    assert leases.available()["CPU"] == 2


def test_an_owner_s_death_withdraws_its_wants_and_stops_its_workers() -> None:
    leases = machine(cpus=1, workers=1)
    grant = the_grant(leases.want(A, "f", spec(), 2, 0.0))
    leases.want(B, "g", spec(), 1, 0.0)
    assert leases.owner_died(A, 1.0) == [StopWorker(grant.worker, "owner died")]
    assert [row.owner for row in leases.table(1.0)] == [B]
    assert leases.worker_died(grant.worker, 1.1) == [StartWorker(NODE, "env")]


def test_owners_take_turns() -> None:
    leases = machine(cpus=1, workers=1)
    first = the_grant(leases.want(A, "f", spec(), 3, 0.0))
    leases.want(B, "g", spec(), 3, 0.0)
    served = []
    for _ in range(4):
        first = the_grant(leases.release(first.lease, 0.1))
        served.append(first.owner)
    assert sorted(served) == [A, A, B, B] and served[0] != served[1]


def test_a_job_with_many_owners_gets_no_more_turns_than_a_job_with_one() -> None:
    leases = machine(cpus=1, workers=1)
    grant = the_grant(leases.want(b"first", "f", spec(), 1, 0.0))
    for n in range(4):
        leases.want(f"crowd-{n}".encode(), "f", spec(), 9, 0.0, weight_job="crowd")
    leases.want(b"alone", "f", spec(), 9, 0.0, weight_job="alone")
    served = []
    for _ in range(8):
        grant = the_grant(leases.release(grant.lease, 0.1))
        served.append(grant.owner)
    assert served.count(b"alone") == 4


def test_only_so_many_workers_start_at_a_time() -> None:
    leases = machine(cpus=8, starting_max=2)
    assert len(leases.want(A, "f", spec(), 8, 0.0)) == 2
    out = leases.worker_started(b"w", NODE, "env", 0.1)
    assert len(grants(out)) == 1 and StartWorker(NODE, "env") in out


def test_no_more_workers_than_resources_allow() -> None:
    leases = machine(cpus=2)
    assert leases.want(A, "f", spec(), 50, 0.0) == [StartWorker(NODE, "env")] * 2


def test_requests_that_hold_nothing_are_all_served_at_once() -> None:
    leases = machine(cpus=1, starting_max=100)
    idle = LeaseSpec((), "env", placement=(("CPU", 1.0),), permanent=True)
    assert leases.want(A, "actors", idle, 20, 0.0) == [StartWorker(NODE, "env")] * 20
    assert leases.available()["CPU"] == 1


def test_what_must_be_free_to_place_an_actor_is_not_held_by_it() -> None:
    leases = machine(cpus=1, workers=2)
    idle = LeaseSpec((), "env", placement=(("CPU", 1.0),), permanent=True)
    task = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    assert leases.want(A, "actor", idle, 1, 0.0) == []
    assert leases.table(0.0)[0].why == "waiting for CPU"
    assert the_grant(leases.release(task.lease, 1.0)).key == "actor"
    assert leases.available()["CPU"] == 1


def test_at_the_limit_of_processes_an_idle_worker_of_another_environment_makes_room() -> None:
    leases = machine(workers=2, worker_max=2)
    out = leases.want(A, "f", spec(env_key="other"), 1, 0.0)
    assert out == [StopWorker(b"w0", "room for another environment"), StartWorker(NODE, "other")]


def test_at_the_limit_of_processes_one_is_asked_back() -> None:
    leases = machine(workers=1, worker_max=1)
    grant = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    assert leases.want(B, "g", spec(env_key="other"), 1, 0.0) == []
    assert leases.table(0.1)[0].why == "all 1 worker processes are in use"
    assert leases.tick(0.5) == [Reclaim(grant.lease, A, grant.worker)]
    assert leases.release(grant.lease, 0.6) == [
        StopWorker(grant.worker, "room for another environment"),
        StartWorker(NODE, "other"),
    ]


def test_a_blocked_worker_does_not_count_against_the_limit_of_processes() -> None:
    leases = machine(workers=1, worker_max=1)
    grant = the_grant(leases.want(A, "parent", spec(), 1, 0.0))
    assert leases.want(grant.worker, "child", spec(), 1, 0.1) == []
    assert leases.blocked(grant.worker, 0.2) == [StartWorker(NODE, "env")], "else parent and child deadlock"


def test_a_blocked_worker_lends_its_cpu_and_takes_it_back_at_once() -> None:
    leases = machine(cpus=1, workers=2)
    parent = the_grant(leases.want(A, "parent", spec(GPU=1), 1, 0.0))
    leases.want(A, "child", spec(), 2, 0.0)
    child = the_grant(leases.blocked(parent.worker, 1.0))
    assert leases.available() == {"CPU": 0, "GPU": 1}, "only the CPU is lent"
    assert leases.blocked(parent.worker, 1.0) == []
    assert leases.unblocked(parent.worker, 2.0) == []
    assert leases.available()["CPU"] == -1
    assert leases.release(child.lease, 3.0) == [], "nothing is granted before it is paid back"
    assert leases.available()["CPU"] == 0
    assert the_grant(leases.release(parent.lease, 4.0)).key == "child"


def test_a_blocked_worker_that_keeps_its_cpu_lends_nothing() -> None:
    leases = machine(cpus=1, workers=2)
    parent = the_grant(leases.want(A, "parent", spec(), 1, 0.0))
    leases.want(A, "child", spec(), 1, 0.0)
    assert leases.blocked(parent.worker, 1.0, keeps_cpu=True) == []
    assert leases.unblocked(parent.worker, 2.0) == []
    assert the_grant(leases.release(parent.lease, 3.0)).key == "child"


def test_a_worker_that_dies_while_blocked_gives_back_what_it_had_not_lent() -> None:
    leases = machine(cpus=1, workers=1)
    grant = the_grant(leases.want(A, "f", spec(GPU=1), 1, 0.0))
    leases.blocked(grant.worker, 1.0)
    leases.worker_died(grant.worker, 2.0)
    assert leases.available() == leases.totals()


def test_whole_gpus_are_told_by_id_and_fractions_share_one() -> None:
    leases = machine(cpus=8, workers=8)
    whole = the_grant(leases.want(A, "whole", LeaseSpec((("GPU", 1.0),), "env"), 1, 0.0))
    halves = grants(leases.want(A, "half", LeaseSpec((("GPU", 0.5),), "env"), 3, 0.0))
    assert whole.accelerators == (("GPU", (0,)),)
    assert [half.accelerators for half in halves] == [(("GPU", (1,)),)] * 2


def test_what_exceeds_every_node_is_reported_once_and_waits_for_a_node() -> None:
    leases = machine()
    (told,) = leases.want(A, "f", spec(16), 1, 0.0)
    assert isinstance(told, Infeasible) and "CPU: 16" in told.reason and told.spec == spec(16)
    assert leases.want(A, "f", spec(16), 2, 0.1) == []
    assert leases.tick(5.0) == []
    assert leases.table(6.0)[0].infeasible and leases.table(6.0)[0].waited_s == 6.0
    assert leases.add_node(OTHER, {"CPU": 32}) == [StartWorker(OTHER, "env")] * 2


def test_affinity_to_a_node_is_strict_unless_soft() -> None:
    leases = machine()
    hard = LeaseSpec((("CPU", 1.0),), "env", ("node", OTHER, False))
    soft = LeaseSpec((("CPU", 1.0),), "env", ("node", OTHER, True))
    (told,) = leases.want(A, "hard", hard, 1, 0.0)
    assert isinstance(told, Infeasible) and OTHER.hex() in told.reason
    assert leases.want(A, "soft", soft, 1, 0.0) == [StartWorker(NODE, "env")]
    assert leases.add_node(OTHER, {"CPU": 1}) == [StartWorker(OTHER, "env")]


def test_default_packs_until_half_is_used_and_then_takes_the_emptiest() -> None:
    leases = Leases(starting_max=99, worker_max=0)
    for node_id in (NODE, OTHER):
        leases.add_node(node_id, {"CPU": 4})
    out = leases.want(A, "f", spec(), 6, 0.0)
    assert [told.node_id for told in out if isinstance(told, StartWorker)] == [
        NODE,
        NODE,
        OTHER,
        OTHER,
        NODE,
        OTHER,
    ]


@pytest.mark.parametrize(("share", "first"), [(1.0, [NODE] * 4), (0.0, [NODE, OTHER, NODE, OTHER])])
def test_how_far_a_node_is_filled_before_the_next_can_be_set(share: float, first: list[bytes]) -> None:
    leases = Leases(starting_max=99, worker_max=0)
    leases.pack_until = share
    for node_id in (NODE, OTHER):
        leases.add_node(node_id, {"CPU": 4})
    out = leases.want(A, "f", spec(), 4, 0.0)
    assert [told.node_id for told in out if isinstance(told, StartWorker)] == first


def test_spread_takes_the_emptiest_node_each_time() -> None:
    leases = Leases(starting_max=99, worker_max=0)
    for node_id in (NODE, OTHER):
        leases.add_node(node_id, {"CPU": 4})
    out = leases.want(A, "f", LeaseSpec((("CPU", 1.0),), "env", ("spread",)), 4, 0.0)
    assert [told.node_id for told in out if isinstance(told, StartWorker)] == [NODE, OTHER, NODE, OTHER]


def test_labels_choose_nodes_and_soft_ones_only_prefer() -> None:
    leases = Leases(starting_max=99, worker_max=0)
    leases.add_node(NODE, {"CPU": 1}, {"zone": "a"})
    leases.add_node(OTHER, {"CPU": 1}, {"zone": "b"})
    soft = LeaseSpec((("CPU", 1.0),), "env", ("labels", (), (("zone", "in", ("b",)),)))
    out = leases.want(A, "soft", soft, 2, 0.0)
    assert [told.node_id for told in out if isinstance(told, StartWorker)] == [OTHER, NODE]
    picky = LeaseSpec((), "env", label_selector=(("zone", "c"),))
    assert isinstance(leases.want(A, "picky", picky, 1, 0.0)[0], Infeasible)


def test_fallbacks_are_taken_in_their_order_where_the_ones_before_have_no_room() -> None:
    leases = Leases(starting_max=99, worker_max=0)
    for node_id, zone in ((b"a" * 16, "a"), (b"b" * 16, "b"), (b"c" * 16, "c")):
        leases.add_node(node_id, {"CPU": 1}, {"zone": zone})
    chosen = LeaseSpec(
        (("CPU", 1.0),),
        "env",
        label_selector=(("zone", "c"),),
        fallbacks=((("zone", "z"),), (("zone", "b"),)),
    )
    out = leases.want(A, "f", chosen, 3, 0.0)
    assert [told.node_id for told in out if isinstance(told, StartWorker)] == [b"c" * 16, b"b" * 16]
    anything = LeaseSpec((("CPU", 1.0),), "env", label_selector=(("zone", "c"),), fallbacks=((),))
    out = leases.want(A, "g", anything, 1, 0.0)
    assert [told.node_id for told in out if isinstance(told, StartWorker)] == [b"a" * 16]


def test_what_no_fallback_can_help_is_said_to_be_infeasible() -> None:
    leases = Leases(starting_max=99, worker_max=0)
    leases.add_node(NODE, {"CPU": 1}, {"zone": "a"})
    hopeless = LeaseSpec((), "env", label_selector=(("zone", "b"),), fallbacks=((("zone", "c"),),))
    told = leases.want(A, "f", hopeless, 1, 0.0)[0]
    assert isinstance(told, Infeasible)
    assert "'b'" in told.reason and "'c'" in told.reason
    pinned = LeaseSpec((), "env", ("node", NODE, False), (("zone", "b"),), fallbacks=((("zone", "a"),),))
    assert isinstance(leases.want(A, "g", pinned, 1, 0.0)[0], StartWorker)


def test_fallbacks_and_soft_labels_go_together() -> None:
    leases = Leases(starting_max=99, worker_max=0)
    for node_id, labels in (
        (b"1" * 16, {"zone": "b"}),
        (b"2" * 16, {"zone": "a"}),
        (b"3" * 16, {"zone": "b", "disk": "ssd"}),
        (b"4" * 16, {"zone": "a", "disk": "ssd"}),
    ):
        leases.add_node(node_id, {"CPU": 1}, labels)
    soft = LeaseSpec(
        (("CPU", 1.0),),
        "env",
        ("labels", (), (("disk", "in", ("ssd",)),)),
        (("zone", "a"),),
        fallbacks=((("zone", "b"),),),
    )
    out = leases.want(A, "f", soft, 4, 0.0)
    assert [told.node_id[:1] for told in out if isinstance(told, StartWorker)] == [b"4", b"2", b"3", b"1"]


def test_idle_workers_are_collected_but_for_the_warmest() -> None:
    leases = machine(workers=3)
    assert leases.tick(59.0) == []
    assert leases.tick(60.0) == [StopWorker(b"w0", "idle"), StopWorker(b"w1", "idle")]
    assert leases.worker_counts(NODE).idle == 1 and leases.worker_counts(NODE).stopping == 2


def test_a_failing_environment_backs_off_and_does_not_hold_up_the_others() -> None:
    leases = machine(cpus=1)
    leases.want(A, "broken", spec(env_key="broken"), 1, 0.0)
    assert leases.want(B, "f", spec(), 1, 0.0) == []
    assert leases.worker_start_failed(NODE, "broken", 0.1) == [StartWorker(NODE, "env")]
    grant = the_grant(leases.worker_started(b"w", NODE, "env", 0.15))
    assert leases.release(grant.lease, 0.16) == []
    assert "failed to start 1 times" in leases.table(0.17)[0].why
    assert leases.tick(0.21) == [StartWorker(NODE, "broken")]


def test_a_death_that_is_heard_of_before_the_birth_is_a_failed_start() -> None:
    leases = machine(cpus=1)
    leases.want(A, "f", spec(), 1, 0.0)
    assert leases.worker_died(b"w", 0.1) == []
    assert leases.worker_started(b"w", NODE, "env", 0.1) == []
    assert leases.worker_counts(NODE).idle == 0
    assert leases.tick(1.0) == [StartWorker(NODE, "env")]


def test_retired_workers_serve_nobody_new() -> None:
    leases = machine(workers=2)
    grant = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    idle = b"w0" if grant.worker == b"w1" else b"w1"
    assert leases.retire_worker(idle) == [StopWorker(idle, "retired")]
    assert leases.retire_worker(grant.worker) == []
    assert leases.release(grant.lease, 2.0) == [StopWorker(grant.worker, "retired")]


def test_a_lost_node_takes_its_workers_and_leases_along() -> None:
    leases = machine(workers=1)
    leases.add_node(OTHER, {"CPU": 2, "GPU": 1})
    grant = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    leases.want(A, "g", LeaseSpec((("CPU", 1.0),), "slow", ("node", NODE, True)), 1, 0.0)
    assert leases.remove_node(NODE, 1.0) == [StartWorker(OTHER, "slow")]
    assert leases.release(grant.lease, 2.0) == [] and leases.worker_died(grant.worker, 2.0) == []
    assert leases.totals() == {"CPU": 2, "GPU": 1}


def test_a_starving_request_keeps_what_becomes_free() -> None:
    leases = machine(cpus=2, workers=2)
    one, two = grants(leases.want(A, "f", spec(), 2, 0.0))
    leases.want(B, "large", spec(2), 1, 0.0)
    assert leases.tick(0.1) == []
    out = leases.tick(0.3)
    assert {told.lease for told in out if isinstance(told, Reclaim)} == {one.lease, two.lease}
    assert leases.tick(0.5) == [], "one round a second"
    assert leases.release(one.lease, 0.6) == []
    assert leases.want(A, "f", spec(), 1, 0.7) == [], "kept for the large one"
    assert leases.table(0.7)[-1].why == "kept free for a request that has waited longer"
    assert the_grant(leases.release(two.lease, 0.8)).key == "large"


def test_those_with_as_little_are_not_asked_for_more() -> None:
    leases = machine(cpus=2, workers=2)
    leases.want(A, "f", spec(), 9, 0.0)
    assert leases.want(B, "g", spec(), 9, 0.0) == []
    (asked,) = leases.tick(0.3)
    assert isinstance(asked, Reclaim) and asked.owner == A
    assert the_grant(leases.release(asked.lease, 0.4)).owner == B
    assert leases.tick(5.0) == [], "one each: nobody has too much"


def test_permanent_leases_are_never_asked_back() -> None:
    leases = machine(cpus=1, workers=1)
    leases.want(A, "actor", LeaseSpec((("CPU", 1.0),), "env", permanent=True), 1, 0.0)
    leases.want(B, "f", spec(), 1, 0.0)
    assert leases.tick(5.0) == []


@pytest.mark.parametrize("lease", [0, 1, 99])
def test_unknown_and_repeated_events_change_nothing(lease: int) -> None:
    leases = machine(workers=1)
    the_grant(leases.want(A, "f", spec(), 1, 0.0))
    leases.release(1, 1.0)
    free = leases.available()
    for out in (
        leases.release(lease, 1.0),
        leases.worker_died(b"?", 1.0),
        leases.worker_start_failed(NODE, "env", 1.0),
        leases.worker_started(b"w0", NODE, "env", 1.0),
        leases.worker_started(b"w", b"?", "env", 1.0),
        leases.blocked(b"w0", 1.0),
        leases.unblocked(b"w0", 1.0),
        leases.owner_died(b"?", 1.0),
        leases.remove_group(b"?", 1.0),
        leases.remove_node(b"?"),
        leases.add_node(NODE, {"CPU": 99}),
        leases.want(A, "f", spec(), 0, 1.0),
    ):
        assert out == []
    assert leases.available() == free == leases.totals()


def test_ten_thousand_requests_of_one_kind_are_served_in_one_queue_each_in_turn() -> None:
    leases = machine(cpus=1, workers=1)
    grant = the_grant(leases.want(b"first", "f", spec(), 1, 0.0))
    for n in range(10_000):
        leases.want(n.to_bytes(4, "big"), "f", spec(), 1, 0.0)
    for n in range(10_000):
        grant = the_grant(leases.release(grant.lease, 0.1))
        assert grant.owner == n.to_bytes(4, "big")
    leases.release(grant.lease, 0.2)
    assert leases.available() == leases.totals() and not leases.busy()


def test_a_request_that_the_gate_holds_back_waits_says_why_and_holds_up_no_other() -> None:
    leases = machine(workers=2)
    leases.gate = lambda want: "memory" if want.owner == A else ""
    assert leases.want(A, "f", spec(), 1, 0.0) == []
    assert leases.table(0.1)[0].why == "held back for memory"
    assert the_grant(leases.want(B, "g", spec(), 1, 0.2)).owner == B, "of the same shape, and behind it"
    assert leases.tick(5.0) == [], "nobody is asked to make room for it"
    leases.gate = lambda want: ""
    assert the_grant(leases.tick(5.1)).owner == A


def test_the_gate_is_not_asked_while_resources_are_short() -> None:
    leases = machine(cpus=1, workers=2)
    leases.want(A, "f", spec(), 1, 0.0)
    asked: list[bytes] = []
    leases.gate = lambda want: asked.append(want.owner) or ""  # type: ignore[func-returns-value]
    leases.want(B, "g", spec(), 1, 0.0)
    assert not asked and leases.table(0.1)[0].why == "waiting for CPU"


def test_starts_that_failed_early_are_delayed_as_those_that_never_came_up() -> None:
    leases = Leases(starting_max=4, worker_max=4)
    leases.add_node(b"n", {"CPU": 2.0}, {}, 0.0)
    leases.delay_starts(b"n", "e", 3, 10.0)
    spec = LeaseSpec(resources=(("CPU", 1.0),), env_key="e")
    asked = leases.want(b"owner---", 1, spec, 1, 10.1)
    assert not [step for step in asked if isinstance(step, StartWorker)]
    later = leases.tick(10.0 + 4 * FIRST_BACKOFF_S + 0.01)
    assert [step for step in later if isinstance(step, StartWorker)]


def test_a_worker_that_served_without_a_gpu_never_serves_one_with_a_gpu() -> None:
    leases = machine(workers=1)
    plain = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    leases.release(plain.lease, 1.0)
    assert leases.want(A, "g", spec(GPU=1), 1, 2.0) == [StartWorker(NODE, "env")]
    with_gpu = the_grant(leases.worker_started(b"w1", NODE, "env", 3.0))
    leases.release(with_gpu.lease, 4.0)
    assert the_grant(leases.want(A, "f", spec(), 1, 5.0)).worker == plain.worker
    assert the_grant(leases.want(A, "g", spec(GPU=0.5), 1, 5.0)).worker == with_gpu.worker


def test_a_worker_that_comes_back_goes_to_the_first_who_waits_for_its_kind() -> None:
    leases = machine(workers=1, starting_max=1)
    plain = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    leases.prestart(NODE, "other", 0.0)  # nothing else may start now
    assert leases.want(A, "g", spec(0, GPU=1), 1, 1.0) == []
    assert leases.want(A, "h", spec(), 1, 1.0) == []
    assert the_grant(leases.release(plain.lease, 2.0)).key == "h"


def test_an_idle_worker_of_the_other_kind_makes_room_when_no_more_may_exist() -> None:
    leases = machine(workers=1, worker_max=1)
    plain = the_grant(leases.want(A, "f", spec(), 1, 0.0))
    leases.release(plain.lease, 1.0)
    out = leases.want(A, "g", spec(GPU=1), 1, 2.0)
    assert [told.worker for told in out if isinstance(told, StopWorker)] == [plain.worker]
    assert StartWorker(NODE, "env") in out
