"""Several nodes in the lease machine: which comes first, and one that is to leave."""

from __future__ import annotations

from sundog.state.leases import Grant, GroupReady, Infeasible, Instruction, Leases, LeaseSpec, StartWorker

HEAD, OTHER, THIRD = b"node-1", b"node-2", b"node-3"
A = b"owner-a"
ONE = LeaseSpec((("CPU", 1.0),), "env")


def machine(*nodes: bytes, cpus: float = 4.0) -> Leases:
    leases = Leases(starting_max=8, worker_max=0, idle_worker_s=60.0, keep=1)
    for node_id in nodes:
        leases.add_node(node_id, {"CPU": cpus})
    return leases


def preferring(node_id: bytes) -> LeaseSpec:
    return LeaseSpec(ONE.resources, ONE.env_key, prefer=node_id)


def coming_from(node_id: bytes) -> LeaseSpec:
    return LeaseSpec(ONE.resources, ONE.env_key, origin=node_id)


def started_on(out: list[Instruction]) -> list[bytes]:
    return [told.node_id for told in out if isinstance(told, StartWorker)]


def test_the_node_of_the_owner_comes_first_while_less_than_half_of_it_is_used() -> None:
    leases = machine(HEAD, OTHER)

    assert started_on(leases.want(A, "f", coming_from(OTHER), 3, 0.0)) == [OTHER, OTHER, HEAD]


def test_the_node_with_the_arguments_is_taken_while_it_has_room() -> None:
    leases = machine(HEAD, OTHER)

    assert started_on(leases.want(A, "f", preferring(OTHER), 5, 0.0)) == [OTHER] * 4 + [HEAD]


def test_what_needs_no_gpu_leaves_nodes_with_gpus_to_others_while_there_is_room_elsewhere() -> None:
    leases = machine(OTHER, cpus=1.0)
    leases.add_node(THIRD, {"CPU": 8.0, "GPU": 1.0})

    assert started_on(leases.want(A, "f", preferring(THIRD), 2, 0.0)) == [OTHER, THIRD]


def test_spread_takes_turns_among_equal_nodes() -> None:
    leases = machine(HEAD, OTHER, THIRD)
    spread = LeaseSpec(ONE.resources, ONE.env_key, strategy=("spread",))
    for node_id in (HEAD, OTHER, THIRD):
        leases.worker_started(node_id + b"-w", node_id, "env", 0.0)
    served = []

    for turn in range(6):
        (grant,) = leases.want(A, "f", spread, 1, float(turn))
        assert isinstance(grant, Grant)
        served.append(grant.node_id)
        leases.release(grant.lease, float(turn))

    assert served == [HEAD, OTHER, THIRD] * 2


def test_a_preferred_node_that_is_gone_does_not_hold_up_a_request() -> None:
    leases = machine(HEAD, OTHER)
    leases.remove_node(OTHER)

    assert started_on(leases.want(A, "f", preferring(OTHER), 1, 0.0)) == [HEAD]


def test_spread_does_not_heed_a_preference() -> None:
    leases = machine(HEAD, OTHER)
    spread = LeaseSpec(ONE.resources, ONE.env_key, strategy=("spread",), prefer=OTHER)

    assert set(started_on(leases.want(A, "f", spread, 2, 0.0))) == {HEAD, OTHER}


def test_nothing_more_is_placed_on_a_node_that_is_to_leave() -> None:
    leases = machine(HEAD, OTHER, cpus=1.0)
    leases.drain_node(HEAD, 0.0)

    assert started_on(leases.want(A, "f", ONE, 2, 0.0)) == [OTHER]


def test_what_runs_on_a_node_that_is_to_leave_goes_on_and_is_counted() -> None:
    leases = machine(HEAD)
    leases.want(A, "f", ONE, 1, 0.0)
    leases.want(A, "actor", lasting(ONE), 1, 0.0)
    first = leases.worker_started(b"w1", HEAD, "env", 0.1)
    leases.worker_started(b"w2", HEAD, "env", 0.1)

    assert leases.drain_node(HEAD, 0.2) == []
    assert leases.tasks_on(HEAD) == 1, "the actor ends with its node"
    assert isinstance(first[0], Grant)
    leases.release(first[0].lease, 0.3)
    assert leases.tasks_on(HEAD) == 0


def test_a_request_that_waited_for_a_worker_there_goes_elsewhere() -> None:
    leases = machine(HEAD, OTHER)
    assert started_on(leases.want(A, "f", ONE, 1, 0.0)) == [HEAD]

    assert started_on(leases.drain_node(HEAD, 0.1)) == [OTHER]


def test_draining_twice_or_draining_nobody_changes_nothing() -> None:
    leases = machine(HEAD)
    leases.drain_node(HEAD, 0.0)

    assert leases.drain_node(HEAD, 0.1) == []
    assert leases.drain_node(b"?", 0.1) == [] and leases.tasks_on(b"?") == 0


def test_bundles_are_not_placed_on_a_node_that_is_to_leave() -> None:
    leases = machine(HEAD, OTHER)
    leases.drain_node(HEAD, 0.0)

    out = leases.create_group(b"g", [{"CPU": 1.0}, {"CPU": 1.0}], "PACK", A, 0.1)

    assert GroupReady(b"g") in out
    assert set(leases.group_table()[0].nodes) == {OTHER}


def test_a_strict_pack_takes_its_target_if_it_fits_there() -> None:
    leases = machine(HEAD, OTHER, THIRD)

    leases.create_group(b"g", [{"CPU": 2.0}, {"CPU": 2.0}], "STRICT_PACK", A, 0.0, soft_target=THIRD)
    leases.create_group(b"h", [{"CPU": 2.0}], "STRICT_PACK", A, 0.0, soft_target=THIRD)

    placed = {row.pg_id: set(row.nodes) for row in leases.group_table()}
    assert placed[b"g"] == {THIRD}
    assert THIRD not in placed[b"h"], "it is full, and the target is a wish"


def lasting(spec: LeaseSpec) -> LeaseSpec:
    return LeaseSpec(spec.resources, spec.env_key, permanent=True)


def test_actors_that_hold_nothing_while_they_live_are_spread() -> None:
    leases = machine(HEAD, OTHER, cpus=1.0)
    actor = LeaseSpec((), "env", placement=(("CPU", 1.0),))
    found = []
    for number in range(4):
        name = b"actor-%d" % number
        (node_id,) = started_on(leases.want(name, name, actor, 1, float(number)))
        leases.worker_started(name + b"-w", node_id, "env", float(number))
        found.append(node_id)
    assert sorted(found) == [HEAD, HEAD, OTHER, OTHER]


def on_node(node_id: bytes, soft: bool, when_full: str) -> LeaseSpec:
    return LeaseSpec(ONE.resources, ONE.env_key, strategy=("node", node_id, soft, when_full))


def test_work_for_a_full_node_waits_or_goes_elsewhere_or_fails_as_it_asks() -> None:
    for soft, when_full, elsewhere, fails in (
        (True, "wait", [], False),
        (True, "spill", [HEAD], False),
        (False, "wait", [], False),
        (False, "fail", [], True),
    ):
        leases = machine(HEAD, OTHER, cpus=1.0)
        assert started_on(leases.want(A, "f", on_node(OTHER, soft, when_full), 1, 0.0)) == [OTHER]
        out = leases.want(b"owner-b", "f", on_node(OTHER, soft, when_full), 1, 1.0)
        assert started_on(out) == elsewhere
        assert any(isinstance(told, Infeasible) for told in out) == fails
