"""What the node remembers of processes, jobs, worker environments and requests. Values only; one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sundog.job_spec import JobSpec
from sundog.net.loop import Line
from sundog.plain import NamedTuple, field, plain
from sundog.wire.control import Answer

if TYPE_CHECKING:
    from sundog.state.actors import ActorRow
    from sundog.wire.dicts import Registration


def registration_of(row: ActorRow) -> Registration:
    """What an actor was registered with: the pure state keeps it and does not look into it."""
    assert isinstance(row.spec, dict)
    spec: Registration = row.spec  # type: ignore[assignment]
    return spec


@plain()
class Process:
    """A driver or worker connected to the node."""

    process_id: bytes
    kind: str  # driver | worker | member (another node) | client (a command)
    line: Line
    job_id: bytes
    pid: int = 0
    env_key: str = ""
    started_at: float = 0.0
    state: str = "starting"  # starting | idle | leased | actor | stopping
    kill_reason: str = ""
    kill_kind: str = ""  # a kind of wire.cause: MEMORY, or "" for any other reason
    kill_facts: dict[str, object] = field(default_factory=dict)  # attributes for the errors that follow
    killed: bool = False  # with SIGKILL by the node, and not by a request to end
    intended: bool = False
    exit_type: str = ""  # Ray's word for the end of the process, where the cause alone does not give it
    out_path: str = ""
    err_path: str = ""
    peers: set[bytes] = field(default_factory=set)  # processes to tell of its death
    node_id: bytes = b""  # the node on which the process runs
    served: bool = False  # has run tasks, and may own objects that they created
    serves: bytes = b""  # the process whose tasks it ran last


@plain()
class Job:
    """A driver's program."""

    job_id: bytes
    driver: bytes
    pid: int
    namespace: str
    entrypoint: str
    spec: JobSpec
    started_at: float
    log_to_driver: bool = True


@plain()
class Environment:
    """What a worker needs beyond its job: a runtime environment; and why it could not be made, with the facts."""

    env_key: str
    job_id: bytes
    runtime_env: dict[str, object]
    prepared: bytes = b""
    error: str = ""
    facts: dict[str, object] = field(default_factory=dict)


class Asker(NamedTuple):
    """The process that made a request, and the number by which its answer is found."""

    process: Process
    number: int

    def answer(self, value: object) -> None:
        """Send the answer."""
        self.process.line.send(Answer(self.number, True, value))


class Later:
    """What a method returns whose answer is sent later."""


LATER = Later()
