"""The words between the node program and the lease machine: what is asked for, and what is to be done.

Owns: ``LeaseSpec`` (a request), and the frozen instructions that ``leases.Leases`` returns, in the order in
which they are to be carried out. Refuses: behaviour; these are values.
Made and read in the node program; specs are also made by owners and travel to the node.
"""

from __future__ import annotations

from collections.abc import Hashable

from sundog.plain import plain
from sundog.state.lease_spec import GROUP_REMOVED, LeaseSpec

__all__ = [
    "GROUP_REMOVED",
    "Grant",
    "GroupReady",
    "GroupRemoved",
    "Infeasible",
    "Instruction",
    "LeaseSpec",
    "Reclaim",
    "StartWorker",
    "StopWorker",
]


class Instruction:
    """Base of everything that the lease machine asks the node program to do."""

    __slots__ = ()


@plain(frozen=True)
class StartWorker(Instruction):
    """Start one worker process for ``env_key``; answer with ``worker_started`` or ``worker_start_failed``."""

    node_id: bytes
    env_key: str


@plain(frozen=True)
class StopWorker(Instruction):
    """End this process (it may be idle or at work); answer with ``worker_died`` once it is gone.

    Until that answer the resources of its lease, if it has one, stay taken: its GPU memory is still in use.
    """

    worker: bytes
    reason: str = ""


@plain(frozen=True)
class Grant(Instruction):
    """Connect ``worker`` to ``owner``, for whose ``key`` it works until the owner releases ``lease``.

    ``number`` counts the grants of the machine: each has a larger one than all before it. The owner says in its wants
    which one it read last.
    """

    lease: int
    owner: bytes
    key: Hashable
    worker: bytes
    node_id: bytes
    resources: tuple[tuple[str, float], ...]
    accelerators: tuple[tuple[str, tuple[int, ...]], ...] = ()
    number: int = 0


@plain(frozen=True)
class Reclaim(Instruction):
    """Ask ``owner`` to finish what runs on ``lease``, send nothing more there, and release it: someone
    starves.

    Sent once per lease. An owner that cannot comply loses nothing; the next round asks for others.
    """

    lease: int
    owner: bytes
    worker: bytes


@plain(frozen=True)
class Infeasible(Instruction):
    """Tell ``owner`` that ``key`` cannot be met by any node as things stand; it stays pending, a node may
    join.

    Sent once per (owner, key) for as long as it stays so. ``reason == GROUP_REMOVED`` will never change
    again.
    """

    owner: bytes
    key: Hashable
    spec: LeaseSpec
    reason: str


@plain(frozen=True)
class GroupReady(Instruction):
    """All bundles of the placement group are set aside (sent again when lost bundles found a new node)."""

    pg_id: bytes


@plain(frozen=True)
class GroupRemoved(Instruction):
    """The placement group is gone; StopWorker for each worker in it comes before this."""

    pg_id: bytes
