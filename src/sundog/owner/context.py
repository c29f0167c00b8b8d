"""What runs in this thread now: the task, the actor, the job. Read by the runtime context and the logs.

Owns the context variable and the process-wide facts that a worker learns with its lease. A context
variable serves threads and asyncio tasks alike.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from sundog.plain import field, plain
from sundog.serialize.pack import unpack

if TYPE_CHECKING:
    from sundog.handle_data import HandleData
    from sundog.wire.dicts import SessionFacts


@plain()
class Running:
    """The task or call that the current thread (or asyncio task) runs."""

    task_id: bytes
    name: str
    attempt: int
    owner: bytes


def _no_session() -> SessionFacts:
    return {}


@plain(slots=False)
class ProcessFacts:
    """Facts of this process that user code may ask for."""

    mode: str = "driver"  # driver | worker
    process_id: bytes = b""
    node_id: bytes = b""
    job_id: bytes = b""
    session: SessionFacts = field(default_factory=_no_session)
    namespace: str = ""
    detached_by_default: bool = False  # the lifetime of actors of this job that are created without lifetime=
    accelerators: dict[str, tuple[int | str, ...]] = field(default_factory=dict)  # kind -> ids of the devices
    resources: dict[str, float] = field(default_factory=dict)
    runtime_env: dict[str, object] = field(default_factory=dict)
    placement_group: bytes | None = None
    capture_child_tasks: bool = False
    actor_id: bytes | None = None
    actor_name: str = ""
    packed_handle: bytes | None = None  # the data of handles to this worker's actor, as the node keeps them
    _handle: HandleData | None = None  # the same, unpacked at the first use
    was_reconstructed: bool = False
    actor_class: str = ""

    def actor_handle(self) -> HandleData | None:
        """The data of handles to the actor of this process; None elsewhere. Loading them may import the
        user's modules.
        """
        if self._handle is None and self.packed_handle is not None:
            self._handle = unpack(self.packed_handle, None)
        return self._handle


# The fields of a `Running`. The reader builds the `Running`; running a task must not pay for it.
Noted = tuple[bytes, str, int, bytes]
running: ContextVar[Noted | None] = ContextVar("sundog_running", default=None)
# A worker that runs one task at a time stores the task here: a tenth of the cost of a context variable.
main_task: Noted | None = None
facts = ProcessFacts()
# Counts the changes of what submitted tasks inherit. Functions bound under an older count are bound again.
generation = 0


def inherit(placement_group: bytes | None, capture: bool) -> None:
    """From now on, tasks submitted here belong to this placement group, if it captures them."""
    global generation
    if (placement_group, capture) != (facts.placement_group, facts.capture_child_tasks):
        facts.placement_group, facts.capture_child_tasks = placement_group, capture
        generation += 1


def current() -> Running | None:
    """What this thread or asyncio task runs; None in a driver, and between tasks."""
    found = running.get() or main_task
    return None if found is None else Running(*found)


def current_id() -> bytes | None:
    """The id of what this thread or asyncio task runs."""
    found = running.get() or main_task
    return None if found is None else found[0]


def reset() -> None:
    """Back to what a fresh process knows."""
    global facts
    facts = ProcessFacts()
