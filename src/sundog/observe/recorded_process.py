"""The row of a process in the index: what is known of it, and how far its events were read.

Owns the row, whose fields are the columns of `processes` (`schema.py`). `intake.py` fills it. Pure.
"""

from __future__ import annotations

from sundog.plain import field, plain


@plain()
class RecordedProcess:
    """A process as the index knows it, and how far it was read."""

    id: int
    process_id: bytes
    node_id: bytes = b""
    pid: int = 0
    role: str = ""
    job_id: bytes = b""
    actor_id: bytes = b""
    actor_name: str = ""
    repr_name: str = ""
    concurrent: int = 0
    class_name: str = ""
    lease: int = 0
    begun: bytes = b""
    begun_s: float = 0.0
    begun_name: int = 0
    line: str = ""
    own_bytes: int = 0
    blocked_s: float = 0.0  # since when it is in a get or wait, and which
    blocked_kind: int = 0
    blocked_on: bytes = b""
    blocked_task: bytes = b""
    blocked_site: int = 0
    after: int = 0
    names_at: int = 0
    unwritten: int = 0  # events that a full disk or a slow node cost, as its process and the node say
    skipped: int = 0  # events that its ring had lost when it was read here
    holes: int = 0  # events that were begun and never written
    numbers: dict[int, int] = field(default_factory=dict)
