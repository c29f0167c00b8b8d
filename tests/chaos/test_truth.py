"""The judge of errors, shown lies and truths: a chaos run is worth what its judge can tell apart."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog import exceptions
from sundog.exceptions import RayTaskError
from tests.chaos.acts import Acts
from tests.chaos.bodies import CRASH_CODE, Broken, Fate, Ledger
from tests.chaos.contents import LARGE, content
from tests.chaos.model import Actor, Entry
from tests.chaos.truth import has_kept, lie

OBJECT = bytes(range(20))
NEVER = 2**22 + 1  # beyond every pid


@pytest.fixture
def acts(tmp_path: Path) -> Iterator[Acts]:
    found = Acts(tmp_path, lineage=True)
    yield found
    found.close()


def ran(acts: Acts, mark: str, *pids: int) -> None:
    (acts.folder / mark).write_text("".join(f"{pid}\n" for pid in pids))


def removed(acts: Acts, kind: str, *marks: str) -> None:
    """A file in which these contents stood is removed."""
    path = acts.folder / "file"
    path.write_bytes(b"".join(bytes(content(mark, LARGE)) for mark in marks))
    acts.log(kind, name="file", file=os.open(path, os.O_RDONLY))
    path.unlink()


def crashed(pid: int, number: int | None = signal.SIGKILL, code: int | None = None) -> Exception:
    return exceptions.WorkerCrashedError("gone", pid=pid, signal=number, exit_code=code)


def test_a_crash_is_true_only_of_the_process_and_signal_that_were_chosen(acts: Acts) -> None:
    entry = Entry("task", "m", retries=0)
    ran(acts, "m", 41)
    assert lie(crashed(41), entry, acts)
    acts.log("worker", pid=41, signal=signal.SIGKILL)
    assert lie(crashed(41), entry, acts) is None
    assert lie(crashed(42), entry, acts)
    assert lie(crashed(41, signal.SIGSEGV), entry, acts)
    acts.log("worker", pid=41, signal=signal.SIGSEGV)  # chosen twice: either may have come first
    assert lie(crashed(41, signal.SIGSEGV), entry, acts) is None
    assert lie(crashed(41), entry, acts) is None
    assert lie(crashed(41, signal.SIGABRT), entry, acts)


def test_a_crash_is_a_lie_while_an_attempt_is_left(acts: Acts) -> None:
    acts.log("worker", pid=41, signal=signal.SIGKILL)
    ran(acts, "m", 41)
    assert lie(crashed(41), Entry("task", "m", retries=1), acts)
    assert lie(crashed(41), Entry("task", "m", retries=-1), acts)
    acts.log("worker", pid=42, signal=signal.SIGKILL)
    ran(acts, "m", 41, 42)
    assert lie(crashed(42), Entry("task", "m", retries=1), acts) is None


def test_a_body_that_ends_its_own_process_is_a_true_crash(acts: Acts) -> None:
    ran(acts, "m", 41)
    entry = Entry("task", "m", fate=Fate(crashes=1))
    assert lie(crashed(41, None, CRASH_CODE), entry, acts) is None
    assert lie(crashed(41, None, 1), entry, acts)
    acts.log("worker", pid=41, signal=signal.SIGSEGV)  # which was a moment too late
    assert lie(crashed(41, None, CRASH_CODE), entry, acts) is None
    assert lie(crashed(41, None, 1), entry, acts)


def test_an_unknown_end_is_true_only_of_a_process_that_was_ended_when_a_zygote_was(acts: Acts) -> None:
    ran(acts, "m", 41)
    entry = Entry("task", "m")
    acts.log("worker", pid=41, signal=signal.SIGKILL)
    assert lie(crashed(41, None), entry, acts)
    acts.log("zygote", pid=40, signal=signal.SIGKILL)
    assert lie(crashed(41, None), entry, acts) is None
    assert lie(crashed(42, None), entry, acts)


def test_an_act_that_was_struck_out_is_no_excuse(acts: Acts) -> None:
    ran(acts, "m", 41)
    acts.strike(acts.log("worker", pid=41, signal=signal.SIGKILL))
    assert lie(crashed(41), Entry("task", "m"), acts)


def test_an_error_of_the_users_must_be_the_one_of_that_run(acts: Acts) -> None:
    entry = Entry("task", "m", fate=Fate(fails=1))
    error = RayTaskError("body", "", Broken("m"))
    ran(acts, "m", 41)
    assert lie(error, entry, acts) is None
    assert lie(RayTaskError("body", "", Broken("other")), entry, acts)
    ran(acts, "m", 41, 42)
    assert lie(error, entry, acts), "the second run does not raise"
    ran(acts, "m", 41)
    entry.retries, entry.retry_exceptions = 3, True
    assert lie(error, entry, acts), "there was to be a second run"


def test_an_error_is_true_if_it_is_true_of_what_the_object_was_made_from(acts: Acts) -> None:
    ran(acts, "parent", 41)
    acts.log("worker", pid=41, signal=signal.SIGKILL)
    child = Entry("task", "child", retries=-1, parents=[Entry("task", "parent")])
    assert lie(RayTaskError("body", "", crashed(41)), child, acts) is None


def test_an_actor_is_dead_only_when_its_restarts_are_used_up(acts: Acts) -> None:
    actor = Actor("a", None, "ledger", max_restarts=1, max_task_retries=0)
    entry = Entry("call", "c", actor=actor)
    error = exceptions.ActorDiedError("dead", pid=42)
    ran(acts, "a.lives", 41, 42)
    acts.log("actor", pid=41, signal=signal.SIGKILL, name="actor")
    assert lie(error, entry, acts)
    acts.log("actor", pid=42, signal=signal.SIGKILL, name="actor")
    assert lie(error, entry, acts) is None
    assert lie(exceptions.ActorDiedError("dead", pid=7), entry, acts)
    actor.max_restarts = -1
    assert lie(error, entry, acts)


def test_an_actor_is_unavailable_only_to_calls_that_may_not_be_made_again(acts: Acts) -> None:
    actor = Actor("a", None, "ledger", max_restarts=-1, max_task_retries=0)
    error = exceptions.ActorUnavailableError("restarting")
    ran(acts, "a.lives", 41)
    assert lie(error, Entry("call", "c", actor=actor), acts)
    acts.log("actor", pid=41, signal=signal.SIGKILL, name="actor")
    assert lie(error, Entry("call", "c", actor=actor), acts) is None
    assert lie(error, Entry("call", "c", actor=actor, retries=-1), acts)


def test_an_owner_that_lives_has_not_died(acts: Acts) -> None:
    error = exceptions.OwnerDiedError("gone")
    assert lie(error, Entry("put", "m", owner_pid=os.getpid()), acts)
    assert lie(error, Entry("put", "m"), acts)
    assert lie(error, Entry("put", "m", owner_pid=NEVER), acts) is None


def test_what_a_dead_process_owned_is_not_lost_for_want_of_a_task_that_computes_it(acts: Acts) -> None:
    removed(acts, "segment", "m")
    inner = Entry("task", "i", object_id=b"i" * 20, owner_pid=NEVER, retries=-1)
    entry = Entry("task", "m", content("m", LARGE), object_id=OBJECT, retries=0, parents=[inner])
    ran(acts, "m", 1)
    chain = [(OBJECT.hex(), "f()"), ((b"i" * 20).hex(), "g()")]
    assert "OwnerDiedError" in str(
        lie(exceptions.ObjectReconstructionFailedError("lost", chain=chain), entry, acts)
    )
    assert lie(exceptions.ObjectReconstructionFailedError("lost", chain=chain[:1]), entry, acts) is None
    assert lie(exceptions.OwnerDiedError("gone"), entry, acts) is None


def test_a_lost_argument_by_value_is_true_only_of_a_task_that_has_one(acts: Acts) -> None:
    argument = OBJECT[:8] + bytes(12)  # index 0: no task made it
    error = exceptions.ObjectLostError("lost", object_ref_hex=argument.hex())
    entry = Entry("task", "m", object_id=OBJECT, argument=content("argument", LARGE))
    assert lie(error, entry, acts)
    removed(acts, "segment", "argument")
    assert lie(error, entry, acts) is None
    assert lie(error, Entry("task", "m", object_id=OBJECT), acts)
    chain = [(OBJECT.hex(), "f()"), (argument.hex(), "put()")]
    assert lie(exceptions.ObjectReconstructionFailedError("lost", chain=chain), entry, acts) is None
    assert lie(exceptions.ObjectReconstructionFailedError("lost", chain=chain[:1]), entry, acts)


def test_a_result_of_an_actor_that_is_gone_cannot_be_made_again(acts: Acts) -> None:
    removed(acts, "segment", "m")
    actor = Actor("a", object(), "ledger", -1, -1)
    entry = Entry("call", "m", content("m", LARGE), retries=-1, actor=actor, object_id=OBJECT)
    assert lie(exceptions.ObjectReconstructionFailedError("lost"), entry, acts)
    actor.handle = None
    assert lie(exceptions.ObjectReconstructionFailedError("lost"), entry, acts) is None


def test_an_object_is_lost_only_if_its_copy_was_removed_and_nothing_can_make_it_again(acts: Acts) -> None:
    put = Entry("put", "m", content("m", LARGE), object_id=OBJECT)
    assert lie(exceptions.ObjectLostError("lost"), put, acts)
    removed(acts, "segment", "m")
    assert lie(exceptions.ObjectLostError("lost"), put, acts) is None
    made = Entry("task", "m", content("m", LARGE), object_id=OBJECT, retries=-1)
    assert lie(exceptions.ObjectReconstructionFailedError("lost"), made, acts)
    made.parents = [Entry("put", "p", object_id=bytes(20))]
    assert lie(exceptions.ObjectReconstructionFailedError("lost"), made, acts) is None


def test_a_file_of_several_objects_is_evidence_for_each_of_them_and_for_no_other(acts: Acts) -> None:
    removed(acts, "spill", "a", "b")
    for mark in "ab":
        put = Entry("put", mark, content(mark, LARGE), object_id=OBJECT)
        assert lie(exceptions.ObjectLostError("lost"), put, acts) is None
    other = Entry("put", "c", content("c", LARGE), object_id=OBJECT)
    assert lie(exceptions.ObjectLostError("lost"), other, acts)


def test_what_is_written_to_a_file_after_it_lost_its_name_is_lost_with_it(acts: Acts) -> None:
    path = acts.folder / "file"
    with path.open("wb") as file:
        acts.log("spill", name="file", file=os.open(path, os.O_RDONLY))
        path.unlink()
        put = Entry("put", "late", content("late", LARGE), object_id=OBJECT)
        assert lie(exceptions.ObjectLostError("lost"), put, acts)
        file.write(put.value)
    assert lie(exceptions.ObjectLostError("lost"), put, acts) is None


def test_only_a_task_that_never_ends_runs_too_long(acts: Acts) -> None:
    error = exceptions.TaskTimeoutError("late", timeout_s=0.3)
    assert lie(error, Entry("task", "m", timeout_s=0.3, late=True), acts) is None
    assert lie(error, Entry("task", "m", timeout_s=0.5, late=True), acts)
    assert lie(error, Entry("task", "m", timeout_s=0.3), acts)


def test_a_task_that_ran_was_begun_unless_its_process_was_killed(acts: Acts) -> None:
    error = exceptions.TaskQueueTimeoutError("not begun", queue_timeout_s=0.1)
    entry = Entry("task", "m", queue_timeout_s=0.1)
    assert lie(error, Entry("task", "m"), acts)
    assert lie(error, entry, acts) is None
    ran(acts, "m", 41)
    assert lie(error, entry, acts)
    acts.log("worker", pid=41, signal=signal.SIGKILL)
    assert lie(error, entry, acts) is None
    assert entry.unbegun_after == 1


def test_memory_runs_out_only_for_what_takes_too_much_and_in_its_own_process(acts: Acts) -> None:
    ran(acts, "m", 41)
    error = exceptions.OutOfMemoryError("too much", pid=41)
    assert lie(error, Entry("task", "m", outgrows=True), acts) is None
    assert lie(error, Entry("task", "m"), acts)
    assert lie(exceptions.OutOfMemoryError("too much", pid=42), Entry("task", "m", outgrows=True), acts)


@pytest.mark.parametrize(
    "error", [exceptions.TaskPlacementGroupRemoved("gone"), exceptions.ActorUnschedulableError("gone")]
)
def test_a_placement_group_is_gone_only_if_the_program_removed_it(acts: Acts, error: BaseException) -> None:
    assert lie(error, Entry("task", "m"), acts)
    assert lie(error, Entry("task", "m", group_removed=True), acts) is None


@pytest.mark.parametrize(
    "error",
    [
        exceptions.TaskCancelledError("cancelled"),
        exceptions.LocalRayletDiedError("gone"),
        exceptions.RaySystemError("oops"),
        exceptions.ReferenceCountingAssertionError("freed"),
        KeyError("oid"),
    ],
)
def test_what_nobody_did_explains_nothing(acts: Acts, error: BaseException) -> None:
    acts.log("worker", pid=41, signal=signal.SIGKILL)
    assert lie(error, Entry("task", "m"), acts)


@pytest.mark.parametrize(
    "error", [crashed(41), exceptions.ObjectLostError("lost"), exceptions.OwnerDiedError("gone")]
)
@pytest.mark.parametrize("kind", ["storm", "disk", "memory"])
def test_a_storm_of_signals_or_a_full_disk_explains_nothing(
    acts: Acts, kind: str, error: BaseException
) -> None:
    acts.log(kind)
    assert lie(error, Entry("task", "m", content("m", LARGE), object_id=OBJECT), acts)


def test_an_actor_may_be_hit_by_what_was_meant_for_the_task_before_it(acts: Acts) -> None:
    entry = Entry("call", "c", actor=Actor("a", None, "ledger", 0, 0))
    error = exceptions.ActorDiedError("gone", signal=signal.SIGKILL)
    assert lie(error, entry, acts)
    acts.log("worker", pid=51, signal=signal.SIGSEGV, name="leased")
    assert lie(error, entry, acts)
    acts.log("worker", pid=52, signal=signal.SIGKILL, name="leased")
    assert lie(error, entry, acts) is None
    (acts.folder / "b.lives").write_text("52\n")  # no: that one was another actor, and had noted it
    assert lie(error, entry, acts)
    ran(acts, "b.lives")
    twice = Entry("call", "c", actor=Actor("a", None, "ledger", 1, 0))
    assert lie(error, twice, acts)


def test_a_lost_node_is_true_only_of_a_task_without_attempts_left_after_a_member_was_killed(
    acts: Acts,
) -> None:
    error = exceptions.NodeDiedError("its node died")
    assert lie(error, Entry("task", "m"), acts)
    acts.log("member", pid=7, signal=9)
    assert lie(error, Entry("put", "m"), acts)
    assert lie(error, Entry("task", "m", retries=-1), acts)
    ran(acts, "m", 8)
    assert lie(error, Entry("task", "m"), acts) is None


def test_an_actor_has_a_ref_to_keep_once_the_call_that_brings_it_has_run(acts: Acts) -> None:
    ledger = Ledger.__ray_metadata__.modified_class(str(acts.folder), "p0-1")
    actor = Actor("p0-1", None, "ledger", 0, 0)
    assert not has_kept(actor, "p0-2", acts), "calls of other callers may run before it"
    ledger.keep("p0-2", [])
    assert has_kept(actor, "p0-2", acts) and not has_kept(actor, "p0-3", acts)
