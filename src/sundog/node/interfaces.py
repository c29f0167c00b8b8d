"""What the parts of a node ask of the node, and of each other.

A part that needs no other part knows the node by `NodeBasics`: its session, its settings, its clock and loop, which
process is connected. A part that needs another one knows that part by the interface that stands here, and names in its
own file which of them it needs (`With…`). So a reader of a part need not know the program (`program.py`), which builds
all parts in order and connects them. Owns no code: types alone, for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sundog.config import Config
    from sundog.machine import Reading
    from sundog.net.loop import Line, Loop
    from sundog.node.causes import Causes
    from sundog.node.rows import Environment, Job, Process
    from sundog.plain import JsonObject
    from sundog.state.actors import Actors
    from sundog.state.admission import Admission
    from sundog.state.instructions import Instruction, StartWorker
    from sundog.state.leases import Leases
    from sundog.state.memory import Monitor
    from sundog.store.spill import Moved
    from sundog.wire.cause import Cause
    from sundog.wire.control import FromNode
    from sundog.wire.dicts import NodeParams, SessionFacts


class NodeBasics(Protocol):
    """A node, without its parts."""

    session: SessionFacts
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


class Acting(NodeBasics, Protocol):
    """A node that carries out what the lease machine says."""

    def do(self, instructions: Iterable[Instruction]) -> None:
        """Carry out what the lease machine says."""

    def wake_ticks(self) -> None:
        """A request waits: check soon whether requests starve."""

    def forward(self, process: Process, to: bytes, message: FromNode, fd: int) -> None:
        """Pass a descriptor on, and remember that the two have to know of each other's death."""


# ---------------------------------------------------------------------- what parts know of other parts
class WorkerProcesses(Protocol):
    """Starts and ends workers (`workers.Workers`)."""

    by_pid: dict[int, bytes]
    environments: dict[str, Environment]
    zygote: Line | None
    zygote_pid: int
    causes: Causes

    def start_now(self, instruction: StartWorker) -> None:
        """Have the zygote fork a worker."""

    def kill(self, worker_id: bytes, reason: str, intended: bool = True) -> None:
        """End a worker now."""

    def kill_zygote(self) -> None:
        """End the zygote; another one is started."""

    def heard_zygote(self, message: tuple[object, ...], _fds: list[int]) -> None:
        """A zygote says something."""

    def lost(self, process: Process, cause: Cause) -> None:
        """A worker is gone with its node."""


class MemoryWatch(Protocol):
    """Watches memory and ends workers in time (`memory.MemoryKeeper`)."""

    reading: Reading
    monitor: Monitor
    admission: Admission

    def own_bytes(self, pid: int) -> int:
        """The memory that a process shares with no other, looked at not long ago."""

    def new_token(self) -> int:
        """The number of one more question to all owners."""

    def kill(self, worker: bytes, reason: str, facts: dict[str, object]) -> None:
        """End a worker for memory; the facts go into its cause."""


class TenantNames(Protocol):
    """Knows which jobs share limits (`tenancy.Tenancy`)."""

    def of(self, job_id: bytes) -> str:
        """The tenant of a job."""


class ActorRows(Protocol):
    """Has the actors of the session (`actors.ActorKeeper`)."""

    actors: Actors

    @staticmethod
    def in_words(cause: object) -> object:
        """The cause of an actor's end, with the text of a user's error in the place of its pickle."""

    def parked(self) -> int:
        """How many descriptors wait for actors that have no worker yet."""


class FactWriting(Protocol):
    """Writes what happens into the records (`chronicle.Chronicle`)."""

    def node_changed(self, node_id: bytes) -> None:
        """A node joined or is gone."""

    def process_died(self, process: Process, row: JsonObject, cause: Cause) -> None:
        """A worker or a driver is gone."""

    def actor_changed(self, actor_id: bytes) -> None:
        """An actor is in another state."""

    def job_changed(self, job: Job, row: JsonObject) -> None:
        """A job began or ended."""

    def environment_changed(self, environment: Environment) -> None:
        """A runtime environment was made, or could not be made."""

    def spilled(self, url: str, moved: list[Moved], seconds: float) -> None:
        """Objects were moved to disk."""

    def restored(self, name: str, size: int, seconds: float) -> None:
        """An object came back from disk."""


# ---------------------------------------------------------------------- a node with one of its parts
class WithWorkers(NodeBasics, Protocol):
    """A node with its workers."""

    @property
    def workers(self) -> WorkerProcesses:
        """Starts and ends workers."""


class WithMemory(NodeBasics, Protocol):
    """A node with its memory monitor."""

    @property
    def memory(self) -> MemoryWatch:
        """Watches memory."""


class WithTenants(NodeBasics, Protocol):
    """A node that knows which jobs share limits."""

    @property
    def tenancy(self) -> TenantNames:
        """Knows the tenant of a job."""


class WithActors(NodeBasics, Protocol):
    """A node with the actors of its session."""

    @property
    def keeper(self) -> ActorRows:
        """Has the actors."""


class WithFacts(NodeBasics, Protocol):
    """A node that records what happens to it."""

    @property
    def chronicle(self) -> FactWriting:
        """Writes the records."""
