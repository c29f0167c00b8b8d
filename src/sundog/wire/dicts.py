"""Dicts that travel between the programs of a session, with the names and types of what is in them.

Owns the types; the process that starts a program or registers an actor fills them, once each. They are dicts and not
rows (`wire/row.py`), for each has a few keys that only some have. Import it for type checkers alone. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from sundog.job_spec import JobSpec
    from sundog.plain import JsonObject
    from sundog.state.lease_spec import LeaseSpec
    from sundog.wire.inspect import Inspect


class SessionFacts(TypedDict, total=False):
    """What every program of a session knows of it. The first four are there from the start."""

    name: str
    path: str  # its folder on disk
    shm_root: str  # its folder in shared memory
    spill_folders: list[str]
    webui_url: str | None
    store_bytes: int  # the limit of the object store
    node_id: bytes
    node_pid: int
    # Of sessions of several nodes alone:
    several: bool
    node_tag: str  # of a program on another node than the head: that node's
    head_id: bytes


class NodeParams(TypedDict):
    """What the program of a node is started with."""

    session: SessionFacts
    node_id: str
    config: JsonObject  # the fields of `Config`
    resources: dict[str, float]
    labels: dict[str, str]
    persistent: bool
    driver_fd: int | None
    environ: dict[str, str]
    head_fd: NotRequired[int | None]
    member: NotRequired[bool]
    node_name: NotRequired[str]


class WorkerCommon(TypedDict):
    """What all workers of a job on one node have in common."""

    session: SessionFacts
    job: JobSpec
    config: JsonObject  # the fields of `Config`


class WorkerSpec(TypedDict):
    """What a worker is forked with beside that."""

    worker_id: bytes
    runtime_env: JsonObject
    prepared_env: bytes  # a pickled environment; nothing if there is none
    out_path: str
    err_path: str


class LeaseSetup(TypedDict, total=False):
    """What a worker does before its first task under a lease."""

    resources: dict[str, float]
    pg_id: bytes
    capture: bool  # tasks that a task here submits run in its placement group
    accelerators: tuple[tuple[str, tuple[int, ...]], ...]
    lease: int


class Registration(TypedDict, total=False):
    """What the node keeps of an actor, and hands to each worker that becomes it."""

    detached: bool
    max_restarts: int
    get_if_exists: bool
    namespace: str
    name: str
    class_name: str
    class_path: str
    lease: LeaseSpec
    setup: LeaseSetup
    imports: list[str]  # modules that its process needs, and plain workers do not
    blob: bytes
    max_concurrency: int | None
    concurrency_groups: dict[str, int] | None
    retry_exceptions: object
    job_id: bytes
    submit_s: float
    hidden: bool
    inspect: Inspect | None
    unread_max: int
    handle: bytes
    call_site: str
    # Of actors that live, or lived:
    created: bool
    repr_name: str
    error_text: str
    pid: int
    node_id: str
    # Since its arguments are ready:
    args: object
    extra: JsonObject | None  # by the keys EXTRA_… of `wire/lanes.py`
    owner: bytes
