"""What a driver's program is to the node and to its workers: the row that they set themselves up by.

Owns the row. `init()` fills it, the node adds the ids, and each worker of the job takes it over before its first task.
"""

from __future__ import annotations

from sundog.isolation import Interpreter
from sundog.plain import plain


@plain(eq=False)
class JobSpec:
    """One driver's program."""

    interpreter: Interpreter  # the driver's import path and start-up options, which its workers take over
    cwd: str
    namespace: str = ""  # namespace of actors' names; "": a new one, chosen by the node
    compat: bool = False  # the driver imported sundog as ray
    detached: bool = False  # its actors are detached unless their lifetime says otherwise
    notices: tuple[int, str | None, bool] | None = (
        None  # which of sundog's messages are shown; None: as by default
    )
    logging: dict[str, object] | None = None  # how the program and its workers log; a LoggingConfig as a dict
    job_id: bytes = b""  # set by the node
    submission_id: str = ""  # of the submitted job whose entrypoint this is
    weight: float = 1.0  # relative weight of its share of the CPUs
    cpus: float = 0.0  # the most that its tasks and actors may use at a time; 0: no limit
    memory: int = 0  # bytes that its processes may hold together; 0: no limit
    object_store: int = 0  # bytes that its objects may take of the store; 0: no limit
