"""Requests about placement groups: made, removed, waited for, found, shown.

Owns the answers, and the table of askers that wait for a group. Refuses: placing; the lease machine does. Runs on the
node's only thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.ids import random_id
from sundog.node.listings import group_stats
from sundog.node.rows import LATER, Asker, Later, Process
from sundog.wire import requests as ask
from sundog.wire.control import PgRemove

if TYPE_CHECKING:
    from sundog.node.interfaces import Acting
    from sundog.plain import JsonObject


class GroupRequests:
    """Answers requests about placement groups."""

    def __init__(self, node: Acting) -> None:
        self.node = node
        self._waiters: dict[bytes, list[Callable[[], None]]] = {}  # called when the group changes

    def create(self, asker: Asker, request: ask.PgCreate) -> tuple[bytes, bool]:
        """Create a placement group: its id, and whether it could be placed at once."""
        node = self.node
        pg_id = random_id(16)
        node.do(
            node.leases.create_group(
                pg_id,
                request.bundles,
                request.strategy,
                asker.process.process_id,
                node.now(),
                request.name,
                request.lifetime or "",
                request.label_selectors or (),
                request.namespace,
                request.soft_target,
                request.topology,
            )
        )
        node.wake_ticks()
        return pg_id, self._state(pg_id) == "CREATED"

    def remove(self, _process: Process, message: PgRemove) -> None:
        """Remove a placement group; what runs in it ends. The asker does not wait."""
        self.node.do(self.node.leases.remove_group(message.pg_id, self.node.now()))

    def wait(self, asker: Asker, request: ask.PgWait) -> bool | Later:
        """Answer once the group is placed (True) or the time is over (False)."""
        _, pg_id, timeout_s = request
        state = self._state(pg_id)
        if state == "CREATED":
            return True
        if state in ("REMOVED", None):
            return False
        if timeout_s is not None and timeout_s <= 0:
            return False
        answered = [False]

        def answer(value: bool) -> None:
            if not answered[0]:
                answered[0] = True
                asker.answer(value)

        def changed() -> None:
            now = self._state(pg_id)
            if now in ("CREATED", "REMOVED", None):
                answer(now == "CREATED")

        def over() -> None:
            answer(False)
            waiters = self._waiters.get(pg_id, [])
            if changed in waiters:  # a program may poll for a group that is never placed
                waiters.remove(changed)
                if not waiters:
                    del self._waiters[pg_id]

        self._waiters.setdefault(pg_id, []).append(changed)
        if timeout_s is not None:
            self.node.loop.after(timeout_s, over)
        return LATER

    def changed(self, pg_id: bytes) -> None:
        """A group was placed or removed: answer the askers that wait for it."""
        for call in self._waiters.pop(pg_id, []):
            call()

    def _state(self, pg_id: bytes) -> str | None:
        group = self.node.leases.group(pg_id)
        return None if group is None else group.state

    def by_name(self, _asker: Asker, request: ask.PgByName) -> bytes | None:
        """The id of the placement group with this name in this namespace."""
        return self.node.leases.group_named(request.name, request.namespace)

    def table(self, _asker: Asker, request: ask.PgTable) -> JsonObject:
        """Rows in the shape of `placement_group_table()`."""
        pg_id = request.pg_id
        leases = self.node.leases
        found = leases.group_table() if pg_id is None else [leases.group(pg_id)]
        rows = {}
        for row in filter(None, found):
            rows[row.pg_id.hex()] = {
                "placement_group_id": row.pg_id.hex(),
                "name": row.name,
                "bundles": {index: dict(bundle) for index, bundle in enumerate(row.bundles)},
                "bundles_to_node_id": {
                    index: (node_id.hex() if node_id else "") for index, node_id in enumerate(row.nodes)
                },
                "strategy": row.strategy,
                "state": row.state,
                "stats": group_stats(row),
            }
        return rows if pg_id is None else rows.get(pg_id.hex(), {})
