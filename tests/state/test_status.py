"""Rows of the status: why each request waits, in the words that the user reads."""

from __future__ import annotations

from sundog.state.leases import FIRST_BACKOFF_S, Leases, LeaseSpec

NODE, A, B = b"node-1", b"owner-a", b"owner-b"
GROUP = b"g" * 18


def spec(cpus: float = 1.0, env_key: str = "env", **more: float) -> LeaseSpec:
    return LeaseSpec(tuple(sorted({"CPU": cpus, **more}.items())), env_key)


def machine(*, worker_max: int = 0, **resources: float) -> Leases:
    leases = Leases(starting_max=8, worker_max=worker_max, idle_worker_s=60.0, keep=1)
    leases.add_node(NODE, resources or {"CPU": 2, "GPU": 1})
    return leases


def why(leases: Leases, key: str, now: float = 0.0) -> str:
    (row,) = [row for row in leases.table(now) if row.key == key]
    return row.why


def test_a_request_whose_worker_starts_says_so() -> None:
    leases = machine()
    leases.want(A, "f", spec(), 1, 0.0)
    assert why(leases, "f") == "worker starting"


def test_a_request_names_all_resources_that_it_lacks() -> None:
    leases = machine()
    leases.want(A, "f", spec(2, GPU=1), 1, 0.0)
    leases.worker_started(b"w", NODE, "env", 0.0)
    leases.want(B, "g", spec(1, GPU=1), 1, 0.0)
    assert why(leases, "g") == "waiting for CPU, GPU"


def test_a_request_that_fits_on_no_node_is_infeasible() -> None:
    leases = machine()
    leases.want(A, "f", spec(64), 1, 0.0)
    (row,) = leases.table(0.0)
    assert row.infeasible and row.why.startswith("infeasible: ")


def test_a_full_table_of_processes_is_named_with_its_limit() -> None:
    leases = machine(worker_max=1)
    leases.want(A, "f", spec(), 1, 0.0)
    leases.worker_started(b"w", NODE, "env", 0.0)
    leases.want(B, "g", spec(1, "other"), 1, 0.0)
    assert why(leases, "g") == "all 1 worker processes are in use"


def test_workers_that_failed_to_start_are_counted() -> None:
    leases = machine()
    leases.want(A, "f", spec(), 1, 0.0)
    leases.worker_start_failed(NODE, "env", 0.0)
    assert why(leases, "f", FIRST_BACKOFF_S / 2) == "workers failed to start 1 times, tried again soon"


def test_waiting_time_counts_from_the_first_want() -> None:
    leases = machine(CPU=1)
    leases.want(A, "f", spec(), 1, 0.0)
    leases.worker_started(b"w", NODE, "env", 0.0)
    leases.want(B, "g", spec(), 1, 1.0)
    leases.want(B, "g", spec(), 3, 5.0)
    (row,) = leases.table(9.0)
    assert (row.waited_s, row.count) == (8.0, 3)


def test_a_held_lease_tells_its_worker_its_resources_and_whether_it_is_blocked() -> None:
    leases = machine()
    leases.want(A, "f", spec(1, GPU=1), 1, 0.0)
    leases.worker_started(b"w", NODE, "env", 0.0)
    (row,) = leases.held(3.0)
    assert (row.worker, row.resources, row.held_s, row.blocked) == (
        b"w",
        (("CPU", 1.0), ("GPU", 1.0)),
        3.0,
        False,
    )
    leases.blocked(b"w", 3.0)
    assert leases.held(3.0)[0].blocked


def test_a_group_tells_whether_it_waits_or_never_fits() -> None:
    leases = machine(CPU=2)
    leases.create_group(GROUP, [{"CPU": 2}], "PACK", A, 0.0)
    leases.create_group(b"h" * 18, [{"CPU": 1}], "PACK", A, 0.0)
    leases.create_group(b"i" * 18, [{"CPU": 9}], "PACK", A, 0.0)
    rows = {row.pg_id: row for row in leases.group_table()}
    assert (rows[GROUP].state, rows[GROUP].why, rows[GROUP].nodes) == ("CREATED", "", (NODE,))
    assert rows[b"h" * 18].why == "waiting for resources" and rows[b"h" * 18].nodes == (None,)
    assert rows[b"i" * 18].why.startswith("infeasible: ")


def test_placed_bundles_are_resources_by_bundle_and_by_group() -> None:
    leases = machine(CPU=2)
    leases.create_group(GROUP, [{"CPU": 1}, {"CPU": 1}], "PACK", A, 0.0)
    found = leases.group_resources(free=False)
    name = GROUP.hex()
    assert found[f"CPU_group_0_{name}"] == 1.0 and found[f"CPU_group_{name}"] == 2.0
    assert found[f"bundle_group_1_{name}"] == 1000.0 and found[f"bundle_group_{name}"] == 2000.0
