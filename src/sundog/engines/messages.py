"""What the node tells a process that uses the API: of actors it creates, of refusals; and what it tells a driver alone.

Owns the tables, which complete that of `owner/messages.py`. All handlers run under the owner's lock, in whichever
thread reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.wire import control
from sundog.wire.row import Table, on

if TYPE_CHECKING:
    from collections.abc import Callable

    from sundog.engines.creation import Creations
    from sundog.engines.refusals import Refusals


def from_node(creations: Creations, refusals: Refusals) -> Table:
    """For a driver, and for a worker whose user code uses the API."""
    return Table(
        on(control.ActorCreated, creations.created),
        on(control.ActorDead, creations.dead),
        on(control.LeaseInfeasible, refusals.task),
        on(control.ActorInfeasible, refusals.actor),
        on(control.EnvFailed, refusals.environment),
        on(control.WarnOnce, lambda message: refusals.warn_once(message.subject, message.text)),
    )


def to_driver(
    heard_lines: Callable[[control.LogLines], None], heard_goodbye: Callable[[control.Goodbye], None]
) -> Table:
    """For a driver alone."""
    return Table(
        on(control.LogLines, heard_lines),
        on(control.Goodbye, heard_goodbye),
    )
