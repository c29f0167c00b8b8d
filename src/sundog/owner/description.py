"""What an owner tells about its objects and unfinished tasks: rows for the state API, words for a timeout."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sundog.ids import PROCESS_BYTES, result_id, task_of
from sundog.owner.rows import QUEUED, SENT, WAITING, Task
from sundog.wire.lanes import EXTRA_HIDDEN, EXTRA_NAME

if TYPE_CHECKING:
    from sundog.owner.basics import Basics
    from sundog.plain import JsonObject

_TOLD_MAX = 10_000
_MISSING_MAX = 4
_STATES = {
    WAITING: "PENDING_ARGS_AVAIL",
    QUEUED: "PENDING_NODE_ASSIGNMENT",
    SENT: "SUBMITTED_TO_WORKER",
}


def describe_objects(
    basics: Basics, scopes: Iterable[bytes], pid: int, role: str, sites: dict[str, str]
) -> list[JsonObject]:
    """One row for each object this process owns or holds (locked); `scopes`: the
    objects that stand for handles of actors; `sites`: where its refs were made."""
    basics.objects.drain()
    facts = {"type": role.upper(), "pid": pid, "ip": "127.0.0.1"}
    tasks = [
        task for task in list(basics.table.values()) if task.state in _STATES
    ]  # tasks are submitted without the lock
    used = {oid for task in tasks for oid in task.holds or ()}
    rows = []
    inner: set[bytes] = set()
    pinned = basics.segments.viewed()
    for oid in list(basics.ready):  # values are put without the lock
        value = basics.objects.value(oid)
        if value is None:
            continue
        inner.update(value[3] or ())
        location = value[2]
        size = sum(length for _, length in location[2]) if location else len(value[1])
        status = "FINISHED" if oid[:PROCESS_BYTES] == basics.me else "NIL"
        rows.append(_object(oid, size, status, sites, facts) | {"in_shared_memory": location is not None})
    for task in tasks:
        status = "SUBMITTED_TO_WORKER" if task.state == SENT else _STATES[task.state]
        returns = task.fn.returns if isinstance(task.fn.returns, int) else 1
        for index in range(1, returns + 1):
            oid = result_id(task.id, index)
            if oid not in basics.freed_early:
                rows.append(_object(oid, -1, status, sites, facts) | {"attempt_number": task.attempt + 1})
    # Objects of other owners that this process has not read, and handles of actors: a handle is a ref to one
    # object.
    for oid in [oid for oid in list(basics.refs.borrowed) if oid not in basics.ready]:
        rows.append(_object(oid, -1, "NIL", sites, facts))
    for oid in list(scopes):
        rows.append(_object(oid, -1, "NIL", sites, facts) | {"reference_type": "ACTOR_HANDLE"})
    for row in rows:
        oid = bytes.fromhex(row["object_id"])
        held = basics.refs.owned.get(oid) or basics.refs.borrowed.get(oid)
        row["local_ref_count"] = held.local if held is not None else 1
        if row["reference_type"] == "LOCAL_REFERENCE":
            if oid in pinned:
                row["reference_type"] = "PINNED_IN_MEMORY"  # a value in this process reads the bytes in place
            elif oid in used:
                row["reference_type"] = "USED_BY_PENDING_TASK"
            elif oid in inner and row["object_id"] not in sites:
                row["reference_type"] = "CAPTURED_IN_OBJECT"
    return rows


def _object(
    oid: bytes, size: int, status: str, sites: dict[str, str], facts: dict[str, object]
) -> JsonObject:
    return {
        "object_id": oid.hex(),
        "object_size": size,
        "task_status": status,
        "attempt_number": 1,
        "reference_type": "LOCAL_REFERENCE",
        "call_site": sites.get(oid.hex(), ""),
        "in_shared_memory": False,
        **facts,
    }


def describe_tasks(basics: Basics) -> list[dict[str, object]]:
    """Facts for `observe.task_states`: each task of ours that has not ended, and each call that runs here (locked).

    Beyond as many as a list may show, tasks are only counted: rows with a `count`.
    """
    rows: list[dict[str, object]] = [
        {"running": True, "task": task.hex(), "start_s": at_s, "worker": basics.me.hex(), "pid": os.getpid()}
        for task, at_s in basics.running_calls().items()
    ]
    more: Counter[tuple[str, str, str, str]] = Counter()
    for task in list(basics.table.values()):  # tasks are submitted without the lock
        lane = task.lane if task.state == SENT else None
        state = _STATES.get(task.state)
        if state is None or (task.extra is not None and EXTRA_HIDDEN in task.extra):
            # the task has ended and is kept for its lineage (its record says how it ended), or is internal
            continue
        if lane is not None and not lane.worker:
            state = _STATES[QUEUED]  # the call waits at the node until its actor has a process
        elif lane is not None and lane.out_of_order:
            # unless it runs: then the actor's process reports it
            state = "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"
        if len(rows) >= _TOLD_MAX:
            if lane is not None and task.actor is None:
                state = _STATES[QUEUED]  # the task may still be taken back from the worker
            name = (task.extra or {}).get(EXTRA_NAME) or task.fn.name
            more[name, task.fn.function or name, "task" if task.actor is None else "actor_task", state] += 1
            continue
        rows.append(
            {
                **task_facts(basics, task),
                "state": state,
                "missing": [oid.hex() for oid in task.deps or () if oid not in basics.ready][:_MISSING_MAX]
                if task.state == WAITING
                else [],
                "parent": task.parent.hex() if task.parent else "",
                "worker": lane.worker.hex() if lane is not None else "",
                "pid": lane.pid if lane is not None else 0,
            }
        )
    for (name, function, kind, state), count in more.items():
        rows.append({"name": name, "function": function, "kind": kind, "state": state, "count": count})
    return rows


def task_facts(basics: Basics, task: Task) -> dict[str, object]:
    """What its owner knows of a task, in words and numbers."""
    fn, link = task.fn, task.actor
    shape = fn.shape
    group = shape.spec.strategy[1] if shape is not None and shape.spec.strategy[0] == "pg" else b""
    assert isinstance(group, bytes)
    return {
        "task": task.id.hex(),
        "owner": basics.me.hex(),
        "attempt": task.attempt,
        "name": (task.extra or {}).get(EXTRA_NAME) or fn.name,
        "function": fn.function or fn.name,
        "kind": "task" if link is None else "actor_task",
        "actor": link.actor_id.hex() if link is not None else "",
        "resources": dict(shape.spec.resources) if shape is not None else {},
        "pg": group.hex(),
        "submit_s": task.submit_s,
    }


def explain_missing(basics: Basics, oid: bytes) -> str:
    """Why an object is not ready, as a clause that follows its id; empty if that is not known here.

    Cheap, for programs poll with `get(ref, timeout=0)`.
    """
    if oid[:PROCESS_BYTES] != basics.me:
        return f", which belongs to process {oid[:PROCESS_BYTES].hex()} and is not ready there"
    task = basics.table.get(task_of(oid))
    if task is None:
        return ""
    made = f", the result of {task.fn.name}(), "
    if task.state == WAITING:
        return f"{made}which waits for its arguments"
    if task.state == SENT and task.lane is not None and task.lane.pid:
        return f"{made}which was sent to the process with pid {task.lane.pid}"
    return made + ("which waits for a worker" if task.actor is None else "which waits for its actor")
