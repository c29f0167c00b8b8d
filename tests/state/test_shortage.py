"""What a waiting request lacks and which processes have it: told only where somebody really holds it."""

from __future__ import annotations

from sundog.state.leases import Leases, LeaseSpec
from sundog.state.wait_facts import Holder, Shortage

NODE, OTHER = b"node-1", b"node-2"
A, B = b"owner-a", b"owner-b"


def spec(env_key: str = "env", **resources: float) -> LeaseSpec:
    return LeaseSpec(tuple(sorted(resources.items())), env_key)


def machine(**resources: float) -> Leases:
    leases = Leases(starting_max=8, worker_max=0, idle_worker_s=60.0, keep=1)
    leases.add_node(NODE, resources or {"CPU": 2, "GPU": 1})
    return leases


def holding(
    leases: Leases, resources: LeaseSpec, owner: bytes = A, key: str = "f", worker: bytes = b"w"
) -> None:
    leases.want(owner, key, resources, 1, 0.0)
    leases.worker_started(worker, NODE, resources.env_key, 0.0)


def the_lack(found: Shortage | None) -> tuple[str, float, int, tuple[Holder, ...]]:
    assert found is not None
    ((lack,),) = found.places
    return lack.resource, lack.asked, lack.short, lack.holders


def test_the_holder_of_the_missing_resource_is_named_with_its_share() -> None:
    leases = machine()
    holding(leases, spec(CPU=1, GPU=1))
    leases.want(B, "g", spec(CPU=1, GPU=1), 1, 0.0)
    assert the_lack(leases.shortage(B, "g")) == ("GPU", 1.0, 10_000, (Holder("task", b"w", 10_000),))


def test_an_actor_is_told_apart_from_a_task_by_its_key() -> None:
    leases = machine()
    leases.want(A, b"actor-id", spec(CPU=1, GPU=1), 1, 0.0)
    leases.worker_started(b"w", NODE, "env", 0.0)
    leases.want(B, "g", spec(CPU=1, GPU=1), 1, 0.0)
    assert the_lack(leases.shortage(B, "g"))[3] == (Holder("actor", b"w", 10_000),)


def test_a_request_that_has_its_worker_lacks_nothing() -> None:
    leases = machine()
    holding(leases, spec(CPU=1))
    assert leases.shortage(A, "f") is None and leases.shortage(A, "unknown") is None


def test_a_request_whose_worker_starts_lacks_nothing() -> None:
    leases = machine()
    leases.want(A, "f", spec(CPU=1), 1, 0.0)
    assert leases.shortage(A, "f") is None


def test_a_request_that_no_node_could_ever_meet_is_not_a_shortage() -> None:
    leases = machine()
    leases.want(A, "f", spec(CPU=64), 1, 0.0)
    assert leases.shortage(A, "f") is None


def test_a_cpu_that_a_blocked_task_lends_is_held_by_nobody() -> None:
    leases = machine(CPU=1)
    holding(leases, spec(CPU=1))
    leases.blocked(b"w", 0.1)
    leases.want(B, "g", spec(CPU=1), 1, 0.2)
    leases.want(B, "h", spec(CPU=1), 1, 0.2)
    found = leases.shortage(B, "h")
    assert found is None or all(
        holder.key != b"w" for place in found.places for lack in place for holder in lack.holders
    )


def test_each_node_is_a_place_of_its_own() -> None:
    leases = machine(CPU=1)
    leases.add_node(OTHER, {"CPU": 1})
    holding(leases, spec(CPU=1))
    leases.want(A, "f", spec(CPU=1), 2, 0.0)
    leases.worker_started(b"w2", OTHER, "env", 0.0)
    leases.want(B, "g", spec(CPU=1), 1, 0.0)
    found = leases.shortage(B, "g")
    assert found is not None
    assert {lack.holders[0].key for (lack,) in found.places} == {b"w", b"w2"}


def test_a_placement_group_that_holds_the_rest_is_named() -> None:
    leases = machine(CPU=2)
    leases.create_group(b"g" * 18, [{"CPU": 2}], "PACK", A, 0.0)
    leases.want(B, "g", spec(CPU=1), 1, 0.0)
    assert the_lack(leases.shortage(B, "g"))[3] == (Holder("group", b"g" * 18, 20_000),)
