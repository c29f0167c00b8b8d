"""The object stores of all nodes of a session, each kept within its own limit.

::

    processes ── store_ask, store_trimmed ──► the store of the sender's node
    processes ── store_restore, store_freed ─► the store that has the object: it spilled the object, or is its home

Owns one `StoreKeeper` for the head and one for each member; the head's process carries all of them out. Runs on the
node's only thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from sundog.node.rows import Process
from sundog.node.store import StoreKeeper
from sundog.store import places
from sundog.wire.control import StoreAsk, StoreFreed, StoreRestore, StoreTrimmed

if TYPE_CHECKING:
    from sundog.node.interfaces import TenantNames
    from sundog.node.store import StoreNode

    class StoreLimits(TenantNames, Protocol):
        """The limits of jobs, as far as stores know them."""

        def store_came(self, keeper: StoreKeeper) -> None:
            """The store of another node: tell it the limits."""

    class StoresNode(StoreNode, Protocol):
        """What the object stores ask of the node."""

        @property
        def tenancy(self) -> StoreLimits:
            """The limits of jobs."""


class Stores:
    """Every node's store, and which of them a message is for."""

    def __init__(self, node: StoresNode) -> None:
        self.node = node
        session = node.session
        limit = int(node.params["resources"].get("object_store_memory", 0))
        self.head = StoreKeeper(node, node.node_id, session["shm_root"], session["spill_folders"], limit)
        self._members: dict[bytes, StoreKeeper] = {}

    def __iter__(self) -> Iterator[StoreKeeper]:
        yield self.head
        yield from self._members.values()

    def of(self, node_id: bytes) -> StoreKeeper:
        """The store of a node; of one that is gone, the head's."""
        return self._members.get(node_id, self.head)

    def joined(self, node_id: bytes, limit_bytes: int) -> StoreKeeper:
        """A node joined: keep its store."""
        session, tag = self.node.session, places.tag_of_node(node_id)
        keeper = self._members[node_id] = StoreKeeper(
            self.node,
            node_id,
            places.shared_root(session["shm_root"], tag),
            [places.disk_root(folder, tag) for folder in session["spill_folders"]],
            limit_bytes,
        )
        self.node.tenancy.store_came(keeper)
        return keeper

    def lost(self, node_id: bytes) -> None:
        """A node is gone, with its copies of objects, in memory and on disk."""
        keeper = self._members.pop(node_id, None)
        if keeper is not None:
            keeper.lost()

    def holding(self, name: str, asker: bytes) -> StoreKeeper:
        """The store that knows of an object: it spilled the object, or the object was made there."""
        for keeper in self:
            if name in keeper.store.entries:
                return keeper
        tag = places.tag_of(name)
        home = next((keeper for keeper in self if keeper.tag == tag), None)
        return home if home is not None else self.of(asker)

    # ------------------------------------------------------------------ messages
    def ask(self, process: Process, message: StoreAsk) -> None:
        """A process needs credit."""
        self.of(process.node_id).ask(process, message)

    def restore(self, process: Process, message: StoreRestore) -> None:
        """A process found no file for an object."""
        self.holding(message.name, process.node_id).restore(process, message)

    def freed(self, process: Process, message: StoreFreed) -> None:
        """An object is free whose file was not there."""
        for keeper in self:  # a copy of the object may have been spilled too
            if keeper.tag == places.tag_of(message.name) or message.name in keeper.store.entries:
                keeper.freed(process, message)

    def trimmed(self, process: Process, message: StoreTrimmed) -> None:
        """A process released what it could."""
        self.of(process.node_id).trimmed(process, message)

    # ------------------------------------------------------------------ all of them
    def process_died(self, process_id: bytes) -> None:
        """A process is gone, with its objects and its credit."""
        for keeper in self:
            keeper.process_died(process_id)

    def tell_unsent(self, maker: bytes) -> None:
        """After an owner heard of a death: spilled results of its tasks, in case the dead did not live to tell."""
        for keeper in self:
            keeper.tell_unsent(maker)

    def figures(self) -> dict[str, int]:
        """For `sundog status`: the sums over all nodes."""
        sums: dict[str, int] = {}
        for keeper in self:
            for name, amount in {**_usage(keeper.shm_root), **keeper.figures()}.items():
                sums[name] = sums.get(name, 0) + amount
        return sums

    def slow_tick(self) -> None:
        """About every second."""
        for keeper in self:
            keeper.slow_tick()

    def close(self) -> None:
        """The session ends."""
        for keeper in self:
            keeper.close()


def _usage(shm_root: str) -> dict[str, int]:
    count = used = 0
    with contextlib.suppress(OSError), os.scandir(shm_root) as entries:
        for entry in entries:
            if not entry.name.startswith((".", "free-")):  # free segments hold no object
                count += 1
                used += entry.stat().st_blocks * 512
    return {"segments": count, "used_bytes": used}
