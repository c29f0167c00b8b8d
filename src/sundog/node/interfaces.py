"""What the parts of a node ask of the node itself.

A part that needs no other part knows the node by `NodeBasics`: its session, its settings, its clock and loop, which
process is connected. So a reader of such a part need not know the program (`program.py`) and all of its other parts.
Parts that need each other still know the whole node. Owns no code: types alone, for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sundog.config import Config
    from sundog.net.loop import Loop
    from sundog.node.rows import Job, Process
    from sundog.state.leases import Leases
    from sundog.wire.dicts import NodeParams, Session


class NodeBasics(Protocol):
    """A node, without its parts."""

    session: Session
    params: NodeParams
    config: Config
    node_id: bytes
    persistent: bool
    stopping: bool
    started_at: float
    closed_to_others: bool  # no other program can join the session now
    loop: Loop
    leases: Leases
    processes: dict[bytes, Process]  # connected drivers and workers, by id
    jobs: dict[bytes, Job]

    def now(self) -> float:
        """The clock of the machines."""

    def log(self, text: str) -> None:
        """A line in node.log."""

    def reopen(self) -> None:
        """Listen anew: the socket that others know is gone with the session's folder."""
