"""Messages between the head and the session's other nodes, the members.

::

    head ──ToMember──► member
    head ◄─FromMember─ member

Owns the rows. The tables are in `node/member.py` and `node/messages.py`. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.wire.row import Row

if TYPE_CHECKING:
    from sundog.plain import JsonObject


class ToMember(Row):
    """From the head to a member."""


class FromMember(Row):
    """From a member to the head."""


class Join(FromMember, fds=1):
    """Another node joins the session; with it comes the socket of its zygote."""

    node_id: bytes
    pid: int
    zygote_pid: int
    resources: dict[str, float]
    labels: dict[str, str]
    name: str
    versions: JsonObject


class Leave(ToMember):
    """To a node other than the head: end, with everything that is yours."""

    reason: str
