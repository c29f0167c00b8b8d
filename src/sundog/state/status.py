"""Rows for ``sundog status`` and the state API: what waits and why, what is held, which groups exist.

Owns: the wording of *why* a request waits. Refuses: changing anything.
Runs in the node program, on its only thread, in answer to a request.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from sundog.plain import plain
from sundog.state.bundles import CREATED, REMOVED, Group, choose_nodes
from sundog.state.instructions import LeaseSpec
from sundog.state.nodes import KnownNode, Lease
from sundog.state.resources import Demand, from_units
from sundog.state.shapes import Want


@plain(frozen=True)
class WaitingRow:
    owner: bytes
    key: Hashable
    spec: LeaseSpec
    count: int
    waited_s: float
    why: str
    infeasible: bool


@plain(frozen=True)
class HeldRow:
    lease: int
    owner: bytes
    key: Hashable
    worker: bytes
    node_id: bytes
    resources: tuple[tuple[str, float], ...]
    accelerators: tuple[tuple[str, tuple[int, ...]], ...]
    held_s: float
    blocked: bool
    ending: bool


@plain(frozen=True)
class GroupRow:
    pg_id: bytes
    name: str
    strategy: str
    state: str
    lifetime: str
    owner: bytes
    bundles: tuple[dict[str, float], ...]
    nodes: tuple[bytes | None, ...]
    why: str
    attempts: int
    """How often a place was looked for: once, and once more each time that a node was lost."""
    took_s: float
    """From its making to its last placement; 0 while it waits."""
    topology: str
    """The label whose value the nodes of all bundles have in common; empty if there is none."""
    domain: str
    """The value of that label, while the group is placed."""


BUNDLE_UNITS = 1000.0
"""How much of the resource `bundle` a bundle gives, as in Ray: each lease in it takes a thousandth of one."""
_LEASE_SHARE = 0.001


def group_resources(groups: Iterable[Group], *, free: bool) -> dict[str, float]:
    """Return what placed bundles have (or have free), under Ray's names: by bundle, and by group in sum."""
    found: dict[str, float] = {}
    for group in groups:
        for index, bundle in group.bundles.items():
            inside = bundle.pool.free if free else bundle.pool.totals
            leases = sum(1 for lease in bundle.node.leases.values() if lease.pool is bundle.pool)
            has = {name: from_units(units) for name, units in inside.items()}
            has["bundle"] = BUNDLE_UNITS - (_LEASE_SHARE * leases if free else 0.0)
            for name, amount in has.items():
                found[f"{name}_group_{index}_{group.pg_id.hex()}"] = amount
                whole = f"{name}_group_{group.pg_id.hex()}"
                found[whole] = round(found.get(whole, 0.0) + amount, 4)
    return found


def amounts(demand: Demand) -> tuple[tuple[str, float], ...]:
    return tuple((name, from_units(units)) for name, units in demand)


def waiting_rows(wants: Iterable[Want], worker_max: int, now: float) -> list[WaitingRow]:
    rows = []
    for want in sorted(wants, key=lambda want: want.turn):
        if want.count <= 0:
            continue
        since = min([want.since, *(lease.since for lease in want.pending.values())])
        why = _why(want, worker_max)
        rows.append(
            WaitingRow(
                want.owner,
                want.key,
                want.shape.spec,
                want.count,
                now - since,
                why,
                bool(want.shape.infeasible or want.told_infeasible),
            )
        )
    return rows


def _why(want: Want, worker_max: int) -> str:
    shape = want.shape
    if shape.infeasible or want.told_infeasible:
        return f"infeasible: {shape.infeasible or want.told_infeasible}"
    if want.unmet <= 0:
        node = next(iter(want.pending.values())).node
        if worker_max and not node.starting_count and node.process_count() >= worker_max:
            return f"all {worker_max} worker processes are in use"
        return "worker starting"
    if shape.waiting_for:
        return f"waiting for {shape.waiting_for}"
    short: set[str] = set()
    for pool, node in shape.candidates:
        missing = pool.missing(shape.need)
        if not missing:
            if want.held_back:
                return f"held back for {want.held_back}"
            backoff = node.backoffs.get(shape.spec.env_key)
            if backoff is not None:
                return f"workers failed to start {backoff.failures} times, tried again soon"
            return "kept free for a request that has waited longer"
        short.update(missing)
    return f"waiting for {', '.join(sorted(short))}"


def held_rows(leases: Iterable[Lease], now: float) -> list[HeldRow]:
    rows = []
    for lease in leases:
        if lease.worker is not None:
            rows.append(
                HeldRow(
                    lease.lease,
                    lease.owner,
                    lease.key,
                    lease.worker.worker,
                    lease.node.node_id,
                    amounts(lease.holding.units),
                    lease.holding.ids,
                    now - lease.since,
                    lease.worker.blocked,
                    lease.ended,
                )
            )
    return rows


def group_rows(groups: Iterable[Group], nodes: list[KnownNode]) -> list[GroupRow]:
    rows = []
    for group in groups:
        placed = tuple(
            group.bundles[index].node.node_id if index in group.bundles else None
            for index in range(len(group.demands))
        )
        why = ""
        if group.state not in (CREATED, REMOVED):
            feasible = choose_nodes(group, nodes, empty=True) is not None
            why = (
                "waiting for resources"
                if feasible
                else "infeasible: its bundles exceed what the nodes have in total"
            )
        bundles = tuple(dict(amounts(demand)) for demand in group.demands)
        rows.append(
            GroupRow(
                group.pg_id,
                group.name,
                group.strategy,
                group.state,
                group.lifetime,
                group.owner,
                bundles,
                placed,
                why,
                group.attempts,
                max(group.created_at - group.made_at, 1e-6)
                if group.state == CREATED and group.created_at
                else 0.0,
                group.topology,
                group.domain(),
            )
        )
    return rows
