"""Requests: what a driver, a worker or a command asks the node, and what it gets.

Owns the rows. A `Request[A]` is answered by an `A`, or by an error that is raised where it was asked. A request travels
as an `Rpc` with a number, by which the `Answer` finds its asker. The node's table is in `node/requests.py`. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from sundog.plain import JsonObject
from sundog.wire.row import Row

A = TypeVar("A")

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any  # noqa: F401 (used in quotes)

    from sundog.wire.dicts import Registration
    from sundog.wire.looks import Who  # noqa: F401 (used in quotes)
    from sundog.wire.pauses import Pause, Trigger  # noqa: F401 (used in quotes)
    from sundog.wire.profiles import ProfileSpec
    from sundog.wire.status import SessionStatus  # noqa: F401 (used in quotes)

    class Request(Row, Generic[A]):
        """A question to the node."""

    class AskNode(Protocol):
        """What asks the node, however it reaches it: gets a request, gives its answer."""

        def __call__(self, request: Request[A], /) -> A: ...

else:

    class Request(Row):
        """A question to the node."""

        def __class_getitem__(cls, _answer):
            return cls  # a generic alias for each class below would take longer to create than the class


Figures = JsonObject


class ClusterResources(Request[dict[str, float]]):
    """All resources."""


class AvailableResources(Request[dict[str, float]]):
    """Free resources; what is used up is left out, as in Ray."""


class Nodes(Request[list[Figures]]):
    """Rows in the shape of `nodes()`."""


class Status(Request["SessionStatus"]):
    """What `sundog status` shows."""


class ListRows(Request[tuple[list[Figures], list[int]]]):
    """Rows for the state API, and the pids of processes that did not tell theirs in time."""

    what: str  # "actors", "workers", "objects", …
    patience_s: float = 10.0  # for processes to tell theirs


class LookAt(Request["tuple[list[tuple[Who, Any]], list[Who]]"]):
    """What processes tell of themselves now (`wire/looks.py`), and which processes did not answer in time."""

    question: str
    arguments: tuple[object, ...] = ()
    only: tuple[str, ...] = ()  # ids of processes in hexadecimal; all by default
    patience_s: float = 10.0


class EndWorker(Request[bool]):
    """End a worker's process for a user at a terminal; False if it is gone, or is no worker."""

    process_id: str
    reason: str


class PausedTasks(Request["list[Pause]"]):
    """The tasks that stand in a debugger."""


class ListTriggers(Request["list[Trigger]"]):
    """The breakpoints that were set from outside."""


class AddTrigger(Request[int]):
    """Set a breakpoint in every worker; its number."""

    trigger: Trigger


class ClearTriggers(Request[list[int]]):
    """Remove breakpoints, all if none is named; the numbers of those that were there."""

    numbers: list[int]


class Capture(Request[list[str]]):
    """Have every run of these functions leave a capsule, or no longer (all, if none is named); all that do."""

    names: list[str]
    wanted: bool


class BeginProfile(Request[list[int]]):
    """Have processes profiled, all if no pid is named, also those that start meanwhile; the pids that were told."""

    spec: ProfileSpec
    pids: list[int]


class EndProfile(Request[list[int]]):
    """Have them write what they found; the pids that will."""

    profile_id: str


class DrainNode(Request[bool]):
    """Place nothing more on a node; whether no task runs there any more. With `leave` it ends in any case."""

    node_id: bytes
    leave: bool


class StopSession(Request[bool]):
    """End the session."""

    reason: str


class RegisterNamed(Request[bytes]):
    """Register a named actor; its id, or that of the one that exists."""

    actor_id: bytes
    name: str
    namespace: str
    options: Registration


class GetActor(Request[tuple[bytes, bytes]]):
    """The handle of a named actor: its id, and what a handle needs, packed: the node cannot import it."""

    name: str
    namespace: str


class ActorInfo(Request[JsonObject | None]):
    """State and process of one actor; None if it cannot be of this session."""

    actor_id: bytes


class ListNamedActors(Request["list[str] | list[dict[str, str]]"]):
    """Names of live actors; of all namespaces as rows of namespace and name."""

    all_namespaces: bool


class PgCreate(Request[tuple[bytes, bool]]):
    """Create a placement group: its id, and whether it could be placed at once."""

    bundles: list[dict[str, float]]
    strategy: str
    name: str
    lifetime: str | None
    label_selectors: Sequence[Mapping[str, str] | Sequence[tuple[str, str]]] | None
    namespace: str
    soft_target: bytes
    topology: str  # a label whose value the nodes of all bundles have in common


class PgWait(Request[bool]):
    """Answered once the group is placed (True) or the time is over (False)."""

    pg_id: bytes
    timeout_s: float | None


class PgByName(Request[bytes | None]):
    """The id of the placement group with this name in this namespace."""

    name: str
    namespace: str


class PgTable(Request[Figures]):
    """Rows in the shape of `placement_group_table()`; of one group or (None) of all."""

    pg_id: bytes | None


class KeyValueGet(Request[bytes | None]):
    """The value of a key in the session's table."""

    namespace: bytes
    key: bytes


class KeyValuePut(Request[bool]):
    """Set it; whether the key had one before. Without `overwrite` the earlier value stays."""

    namespace: bytes
    key: bytes
    value: bytes
    overwrite: bool


class KeyValueDel(Request[int]):
    """Remove a key, or all that begin so; how many there were."""

    namespace: bytes
    key: bytes
    by_prefix: bool


class KeyValueKeys(Request[list[bytes]]):
    """The keys that begin so."""

    namespace: bytes
    prefix: bytes
