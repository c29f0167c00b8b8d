"""Whether an error is true: held against what the chaos did and what the bodies noted.

Pure, but for what it asks of the log. An error is *true* of an object if the object, or something it was made
from, really met what the error says: the process it names was killed by the signal it names, no attempt was
left, the copy was removed, the owner is dead, the program cancelled it. Any other answer is a lie, whatever it says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sundog import exceptions
from sundog.ids import PROCESS_BYTES, index_of
from tests.chaos.acts import Acts
from tests.chaos.bodies import CRASH_CODE, Broken
from tests.chaos.model import Actor, Entry

Judge = Callable[[Any, Entry, Acts], str | None]


def innermost(error: BaseException) -> BaseException:
    """What was raised first, below the errors of tasks that passed it on."""
    while isinstance(error, exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def lie(error: BaseException, entry: Entry, acts: Acts) -> str | None:
    """What is wrong with an answer to a read; None if it is true."""
    cause = innermost(error)
    judge = _JUDGES.get(type(cause))
    if judge is None:
        return f"nothing that was done can end in {type(cause).__name__}"
    answers = []
    for each in entry.lineage():
        answer = judge(cause, each, acts)
        if answer is None:
            return None
        answers.append(f"{each.kind} {each.mark}: {answer}")
    return "; ".join(answers)


def _broken(error: Broken, entry: Entry, acts: Acts) -> str | None:
    if error.args[0] != entry.mark:
        return f"it is not the one that raises {error.args[0]}"
    runs = acts.runs(entry.mark)
    fate = entry.fate
    if not fate.crashes < len(runs) <= fate.crashes + fate.fails:
        return f"run {len(runs)} of {fate} does not raise"
    if entry.retry_exceptions and not entry.cancelled and entry.attempts_left_after(_attempts(entry, acts)):
        return f"it was not tried again after {len(runs)} runs of {entry.retries + 1}"
    return None


def _crashed(error: exceptions.WorkerCrashedError, entry: Entry, acts: Acts) -> str | None:
    if entry.kind not in ("task", "item"):
        return "no worker of a task was involved"
    if entry.attempts_left_after(_attempts(entry, acts)):
        return f"an attempt was left: {entry.retries} retries, ran in {acts.runs(entry.mark)}"
    runs = acts.runs(entry.mark)
    if error.exit_code == CRASH_CODE and error.pid in runs[: entry.fate.crashes]:
        return None  # also if a signal came then: one that has ended itself takes signals until it is reaped
    # One that is slow to dump its stacks, or starved, may be chosen again before it is gone: any of them ended it.
    sent = [act.signal for act in acts.kills() if act.pid == error.pid]
    if error.signal is None and error.exit_code is None and acts.zygote_killed():
        # A status that the zygote had collected and did not live to tell: known is only that it is gone.
        return (
            None if sent or error.pid in runs[: entry.fate.crashes] else f"nobody killed process {error.pid}"
        )
    if sent:
        return None if error.signal in sent else f"it was signal {sent}, not {error.signal}"
    return f"nobody killed process {error.pid}, and it did not end itself"


def _node_lost(error: exceptions.NodeDiedError, entry: Entry, acts: Acts) -> str | None:
    if entry.kind not in ("task", "item"):
        return "no worker of a task was involved"
    if not acts.member_killed():
        return "no node of the session was killed"
    if entry.attempts_left_after(_attempts(entry, acts)):
        return f"an attempt was left: {entry.retries} retries, ran in {acts.runs(entry.mark)}"
    return None


def _attempts(entry: Entry, acts: Acts) -> int:
    """The most attempts that can have been made: those noted, and one for each kill before the note."""
    runs = acts.runs(entry.mark)
    unnoted = [act for act in acts.kills() if act.number >= entry.since and act.pid not in runs]
    return len(runs) + len(unnoted)


def deaths(actor: Actor, acts: Acts) -> int:
    """How often an actor may have died."""
    lives = [int(line) for line in acts.lines(f"{actor.key}.lives")]
    return sum(acts.kill_of(pid) is not None for pid in lives) + acts.silent_kills() + actor.kicked


def has_kept(actor: Actor, name: str, acts: Acts) -> bool:
    """Whether an actor has what it is to keep: the call that brought it has run."""
    return name in acts.lines(f"{actor.key}.kept")


def _actor_died(error: exceptions.ActorDiedError, entry: Entry, acts: Acts) -> str | None:
    actor = entry.actor
    if actor is None:
        return "no actor was involved"
    if actor.ended:
        return None
    if actor.max_restarts < 0:
        return "an actor that restarts for ever is never dead"
    died = deaths(actor, acts)
    if died <= actor.max_restarts and not (
        died == actor.max_restarts and error.signal and acts.overtaken(error.signal)
    ):
        return f"it died {died} times and may restart {actor.max_restarts} times"
    if error.pid is not None and not actor.kicked and acts.kill_of(error.pid) is None:
        return f"nobody killed process {error.pid}"
    return None


def _unavailable(error: exceptions.ActorUnavailableError, entry: Entry, acts: Acts) -> str | None:
    actor = entry.actor
    if actor is None:
        return "no actor was involved"
    if actor.max_restarts == 0:
        return "an actor without restarts is dead, not unavailable"
    died = deaths(actor, acts)
    if not died:
        return "it never died"
    if entry.retries < 0 or died <= entry.retries:
        return f"an attempt was left: {died} deaths, {entry.retries} retries"
    return None


def _cancelled(error: exceptions.TaskCancelledError, entry: Entry, acts: Acts) -> str | None:
    return None if entry.cancelled else "nobody cancelled it"


def _owner_died(error: exceptions.OwnerDiedError, entry: Entry, acts: Acts) -> str | None:
    if not entry.fragile:
        return "the driver owns it, and lives"
    return None if acts.gone(entry.owner_pid) else f"its owner, process {entry.owner_pid}, lives"


def _lost(error: exceptions.ObjectLostError, entry: Entry, acts: Acts) -> str | None:
    if not entry.object_id:
        return "it is no object"  # a get of several: each of them is asked
    if not acts.lineage and entry.fragile and acts.gone(entry.owner_pid):
        return None  # its copy went with its owner
    if _blames_another_owner(error):
        return "what another process owns is lost only if that process says so, or has died: OwnerDiedError"
    if _names_a_put(error) and acts.removed(entry.argument):
        return None  # its argument by value, without which it can run neither at first nor again
    if not acts.removed(entry.value if entry.value is not None else entry.holds):
        return "nobody removed its copy"
    if not acts.lineage:
        return None
    if any(not _rebuildable(each, acts) for each in entry.lineage()):
        return None
    return "it could have been made again"


def _names_a_put(error: exceptions.ObjectLostError) -> bool:
    """Whether what an error says cannot be had is an object that no task made."""
    chain = getattr(error, "chain", None)
    last = bytes.fromhex(chain[-1][0] if chain else error.object_ref_hex or "")
    return bool(last) and index_of(last) == 0


def _blames_another_owner(error: exceptions.ObjectLostError) -> bool:
    """Whether an owner says of what another process owned that it cannot be computed again."""
    chain = getattr(error, "chain", None) or [("", "")]
    digits = 2 * PROCESS_BYTES
    return bool(chain[0][0][:digits] != chain[-1][0][:digits])


def _rebuildable(entry: Entry, acts: Acts) -> bool:
    if entry.kind == "put" or entry.cancelled:
        return False  # a task that was cancelled does not run again, even if its result came in time
    actor = entry.actor
    if actor is not None and (actor.ended or actor.handle is None or _used_up(actor, acts)):
        return False  # a dead actor makes nothing: it was killed, let go, or died too often
    return entry.retries < 0 or _attempts(entry, acts) <= entry.retries


def _used_up(actor: Actor, acts: Acts) -> bool:
    return 0 <= actor.max_restarts < deaths(actor, acts)


def _node_died(error: exceptions.LocalRayletDiedError, entry: Entry, acts: Acts) -> str | None:
    return None if acts.node_killed() else "nobody killed the node"


def _late(error: exceptions.TaskTimeoutError, entry: Entry, acts: Acts) -> str | None:
    if not entry.late:
        return "it does not run for ever"
    return None if error.timeout_s == entry.timeout_s else f"its timeout_s is {entry.timeout_s}"


def _unbegun(error: exceptions.TaskQueueTimeoutError, entry: Entry, acts: Acts) -> str | None:
    if not entry.queue_timeout_s or error.queue_timeout_s != entry.queue_timeout_s:
        return f"its queue_timeout_s is {entry.queue_timeout_s}"
    runs = acts.runs(entry.mark)
    begun = [pid for pid in runs if acts.kill_of(pid) is None]
    if begun:
        return f"it was begun in {begun}, which nobody killed"
    entry.unbegun_after = len(runs)
    return None


def _out_of_memory(error: exceptions.OutOfMemoryError, entry: Entry, acts: Acts) -> str | None:
    if not entry.outgrows:
        return "it takes no more memory than it may"
    return None if error.pid in acts.runs(entry.mark) else f"it did not run in {error.pid}"


def _group_removed(error: Any, entry: Entry, acts: Acts) -> str | None:
    return None if entry.group_removed else "nobody removed its placement group"


_JUDGES: dict[type[BaseException], Judge] = {
    Broken: _broken,
    exceptions.WorkerCrashedError: _crashed,
    exceptions.NodeDiedError: _node_lost,
    exceptions.ActorDiedError: _actor_died,
    exceptions.ActorUnavailableError: _unavailable,
    exceptions.TaskCancelledError: _cancelled,
    exceptions.OwnerDiedError: _owner_died,
    exceptions.ObjectLostError: _lost,
    exceptions.ObjectReconstructionFailedError: _lost,
    exceptions.LocalRayletDiedError: _node_died,
    exceptions.TaskTimeoutError: _late,
    exceptions.TaskQueueTimeoutError: _unbegun,
    exceptions.OutOfMemoryError: _out_of_memory,
    exceptions.TaskPlacementGroupRemoved: _group_removed,
    exceptions.ActorUnschedulableError: _group_removed,
}
