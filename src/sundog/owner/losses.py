"""What is said of an object that cannot be had: one cause, its evidence, what to do.

Owns the texts and facts of `ObjectLostError` and its kin. Refuses to decide that an object is lost. Called under
the owner's lock.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sundog import events
from sundog.exceptions import (
    ObjectFreedError,
    ObjectLostError,
    ObjectReconstructionFailedError,
    OwnerDiedError,
    ReferenceCountingAssertionError,
)
from sundog.ids import PROCESS_BYTES, index_of, task_of
from sundog.owner.rows import Task, Value
from sundog.state.lineage import EVICTED, FREED, Plan
from sundog.wire.cause import Cause
from sundog.wire.lanes import ERROR
from sundog.wire.peers import FreedBy

if TYPE_CHECKING:
    from sundog.owner.basics import Basics
    from sundog.owner.control import Control
    from sundog.state.lineage import Lineage
    from sundog.store.segments import Segments

_CHAIN_SHOWN = 20
_FREED_MARK = b"ObjectFreedError"


def why_not(task: Task) -> str:
    """Why a finished task cannot run again; empty if it can."""
    if task.cancelled:
        return "its task was cancelled"
    link = task.actor
    if link is not None and link.state == "DEAD":
        return f"actor {link.name}, whose method made it, is dead"
    if task.retries:
        return ""
    option = "max_retries" if link is None else "max_task_retries"
    if task.fn.max_retries == 0:
        return f"{task.fn.name}() has {option}=0, so it may not run again"
    return f"{task.fn.name}() has run {task.attempt + 1} times, which is all that {option}={task.fn.max_retries} allows"


def _reason(why: str, is_put: bool) -> str:
    """A word for programs, after the names that Ray gives these cases."""
    if why == FREED:
        return "FREED"
    if is_put:
        return "PUT"
    if why == EVICTED:
        return "LINEAGE_EVICTED"
    if "=0, so" in why:
        return "RETRIES_DISABLED"
    if " times, which" in why:
        return "MAX_ATTEMPTS_EXCEEDED"
    if "is dead" in why:
        return "ACTOR_DIED"
    return "TASK_CANCELLED" if "cancelled" in why else "REF_NOT_FOUND"


def not_allowed(segments: Segments, oid: bytes, segment: str) -> ObjectLostError:
    """The error for a lost object where nothing is computed again."""
    return ObjectReconstructionFailedError(
        f"Object {oid.hex()} is lost: its segment {segments.path(segment) if segment else ''} was removed, and "
        "lost objects are not computed again because lineage_pinning_enabled is off (LINEAGE_DISABLED).",
        object_ref_hex=oid.hex(),
        reason="LINEAGE_DISABLED",
    )


def cannot_rebuild(basics: Basics, lineage: Lineage, oid: bytes, segment: str, plan: Plan) -> ObjectLostError:
    """The error for an object whose copy is gone and that cannot be made again."""
    where = f": its segment {basics.segments.path(segment)} was removed" if segment else ""
    last = plan.chain[-1]
    is_put = index_of(last) == 0
    if oid == last and is_put:
        return ObjectLostError(
            f"Object {oid.hex()}, a value from put() or an argument passed by value, is lost{where}. No task can "
            "compute it again. Put it again, or let a task make it: the result of a task is computed again when it is "
            "lost.",
            object_ref_hex=oid.hex(),
            object_id=oid.hex(),
            owner_id=basics.me.hex(),
            reason="PUT",
        )
    why = "a value from put() or an argument passed by value cannot be computed again" if is_put else plan.why
    if is_freed(basics.objects.value(last)):
        why = FREED
    chain = [(each.hex(), _made_by(lineage, each)) for each in plan.chain]
    lines = [
        f"\n  {'' if not depth else 'which needs '}object {each} of {maker}"
        for depth, (each, maker) in enumerate(chain)
    ]
    if len(lines) > _CHAIN_SHOWN:
        half = _CHAIN_SHOWN // 2
        lines[half:-half] = [f"\n  … {len(lines) - 2 * half} more …"]
    return ObjectReconstructionFailedError(
        f"Object {oid.hex()} is lost{where}, and could not be computed again:{''.join(lines)}"
        f"\nThe last of these objects cannot be computed again: {why} ({_reason(why, is_put)})."
        f"{_advice(_reason(why, is_put))}",
        object_ref_hex=oid.hex(),
        object_id=oid.hex(),
        owner_id=basics.me.hex(),
        reason=_reason(why, is_put),
        reason_message=why,
        chain=chain,
    )


def _made_by(lineage: Lineage, oid: bytes) -> str:
    if index_of(oid) == 0:
        return "put()"
    task_id = task_of(oid)
    row = lineage.rows.get(task_id)
    return f"{row.name}() (task {task_id.hex()})" if row is not None else f"task {task_id.hex()}"


def _advice(reason: str) -> str:
    if reason in ("RETRIES_DISABLED", "MAX_ATTEMPTS_EXCEEDED"):
        return (
            " Allow more attempts with .options(max_retries=…), or for an actor's methods max_task_retries."
        )
    if reason == "LINEAGE_EVICTED":
        return " Raise max_lineage_bytes with init(_system_config=…), or hold fewer large results at a time."
    return ""


def is_freed(value: Value | None) -> bool:
    """Whether a value is the error of an object that the program freed."""
    return value is not None and value[0] == ERROR and _FREED_MARK in value[1]


def freed(oid: bytes, by: FreedBy) -> ObjectFreedError:
    """The error for an object that the program freed itself."""
    process, pid, site = by
    return ObjectFreedError(
        f"Object {oid.hex()} was freed: process {process} (pid {pid}) called sundog.internal.free() on it at {site}. "
        "A freed object is not computed again. sundog frees an object by itself when its last ref is gone; "
        "call free() only on an object that no task will read.",
        object_ref_hex=oid.hex(),
        object_id=oid.hex(),
        owner_id=oid[:PROCESS_BYTES].hex(),
        freed_by=process,
        freed_at=site,
        pid=pid,
    )


def owner_died(control: Control, oid: bytes, cause: Cause) -> OwnerDiedError:
    """The error for an object whose owner is gone, for this cause."""
    process = oid[:PROCESS_BYTES]
    pid = events.pid_of(control.ring_path(process))
    log = control.log_path(process)
    output = f" Why: sundog why {process.hex()}." + (f" Its output: {log}" if os.path.exists(log) else "")
    return OwnerDiedError(
        f"Object {oid.hex()} cannot be read: process {process.hex()}{f' (pid {pid})' if pid else ''}, which owned "
        f"the object, is gone: {cause.text()} An object ends with the process that called .remote() or put() for it."
        f"{output}",
        object_ref_hex=oid.hex(),
        object_id=oid.hex(),
        owner_id=process.hex(),
        pid=pid,
        exit_code=cause.exit_code,
        signal=cause.signal,
        cause=cause.text(),
    )


def unknown(me: bytes, oid: bytes) -> ObjectLostError:
    """The error for an object that its owner does not have."""
    if oid[:PROCESS_BYTES] == me:
        return ReferenceCountingAssertionError(
            f"Object {oid.hex()} was freed already: no counted ref to it was left when this ref was used. "
            "Refs must travel through task arguments, results or put(); a ref that was pickled by hand in "
            "another process is not counted.",
            object_ref_hex=oid.hex(),
        )
    return ObjectLostError(
        f"Object {oid.hex()} is unknown to this session. A ref is only valid in the session that made it; "
        "after shutdown() and init() make the object again.",
        object_ref_hex=oid.hex(),
    )
