"""Losing a copy and making it again, without a session: which tasks run again, and what their results become."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog import event_names, events
from sundog.exceptions import ObjectLostError, ObjectReconstructionFailedError
from sundog.ids import result_id, task_of
from sundog.owner.arguments import Arguments
from sundog.owner.dispatch import Dispatch
from sundog.owner.lineage import Recovery
from sundog.owner.objects import CopyLost
from sundog.owner.rows import DONE, QUEUED, SENT, Fn, Task
from sundog.state.lease_spec import LeaseSpec
from sundog.wire.lanes import OK
from tests.owner.fakes import make_owner


class World:
    """Finished tasks whose results were in segments."""

    def __init__(self) -> None:
        self.owner = make_owner()
        owner = self.owner
        self.lineage = Recovery(owner, owner.peers, owner.getting, owner.replies, owner.streams)
        self.dispatch = Dispatch(owner, owner.control, owner.replies, owner.cancels)
        arguments = Arguments(owner, owner.replies)
        arguments.dispatch, arguments.actors = self.dispatch, owner.actors
        self.lineage.arguments, self.lineage.dispatch = arguments, self.dispatch
        self.lineage.actors = self.dispatch.actors = owner.actors
        self.shape = self.dispatch.shape_for(LeaseSpec(resources=(("CPU", 1.0),), env_key="01:"), {})
        around = self.owner.objects.around
        around.comes = self._comes
        around.lineage_freed = self.lineage.freed

    def _comes(self, oid: bytes) -> bool:
        if self.lineage.can_recover(oid):
            self.lineage.recover(oid)
            return True
        return False

    def finished(self, name: str, retries: int = 3, *needs: bytes) -> tuple[Task, bytes]:
        """A task that has ended with one result in a segment of its name."""
        fn = Fn(1, name)
        fn.shape, fn.max_retries = self.shape, retries
        task = Task(self.owner.ids.task(), fn, b"args", 0.0)
        oid = result_id(task.id, 1)
        task.lossy, task.state = {oid}, DONE
        task.deps = list(needs) or None
        self.lineage.finished(task)
        self.owner.objects.store(oid, (OK, b"", (name, 8, []), None, None))
        self.owner.refs.hold(oid)
        return task, oid


def test_a_lost_result_is_made_again_by_its_task_and_readers_wait_for_it() -> None:
    world = World()
    task, oid = world.finished("f")
    world.lineage.lost(oid, "f")
    assert oid not in world.owner.ready and world.owner.table == {task.id: task}
    assert (task.attempt, task.retries, task.rebuilding) == (1, 2, {oid})
    assert task.state == QUEUED and list(world.shape.queue) == [task]


def test_many_readers_cause_one_run_and_a_stale_word_causes_none() -> None:
    world = World()
    task, oid = world.finished("f")
    for _ in range(3):
        world.lineage.lost(oid, "f")
    assert task.attempt == 1
    world.owner.objects.store(oid, (OK, b"", ("next", 8, []), None, None))
    world.lineage.lost(oid, "f")
    assert oid in world.owner.ready, "another copy has come meanwhile"


def test_a_task_that_may_not_run_again_makes_its_object_an_error_that_says_so() -> None:
    world = World()
    task, oid = world.finished("f", 0)
    world.lineage.lost(oid, "f")
    with pytest.raises(ObjectReconstructionFailedError, match="max_retries=0"):
        world.owner.objects.load(oid)
    assert task.attempt == 0 and not world.shape.queue


def test_what_was_put_cannot_be_made_again() -> None:
    world = World()
    oid = world.owner.ids.put()
    world.owner.objects.store(oid, (OK, b"", ("s", 8, []), None, None))
    world.lineage.lost(oid, "s")
    with pytest.raises(ObjectLostError):
        world.owner.objects.load(oid)


def test_a_task_that_ends_because_an_object_inside_its_arguments_is_lost_is_noted(tmp_path: Path) -> None:
    world = World()
    owner = world.owner
    owner.ring = events.Ring(str(tmp_path / "1.ring"), 64, "driver")
    oid = owner.ids.put()
    owner.objects.store(oid, (OK, b"", ("s", 8, []), None, None))
    task = Task(owner.ids.task(), Fn(1, "g"), b"args", 0.0)
    task.state = SENT
    owner.table[task.id] = task
    world.lineage.argument_lost(task, oid, "s")
    assert [ended for ended, _ in owner.replies.ended] == [task]
    [(kind, facts)] = event_names.read_notes(owner.ring.path)
    assert (kind, facts["task"], facts["origin"]) == ("failed", task.id.hex(), task_of(oid).hex())
    owner.ring.close()


def test_a_reader_that_finds_a_copy_gone_has_it_made_and_everything_is_sent() -> None:
    world = World()
    task, oid = world.finished("f")
    world.owner.objects.segments.lost.add("f")
    with pytest.raises(CopyLost) as lost:
        world.owner.objects.load(oid)
    world.lineage.lost_here(lost.value)
    assert task.attempt == 1 and world.owner.actors.rounds == 1
    assert world.owner.control.wants == [(world.shape.key, 1)]


def test_a_task_is_forgotten_with_the_last_ref_to_its_result() -> None:
    world = World()
    task, oid = world.finished("f")
    assert world.lineage.can_recover(oid)
    for _ in range(2):  # that of its maker, and ours
        world.owner.refs.drop(oid)
    world.owner.objects.carry_out()
    assert not world.lineage.can_recover(oid) and task.id not in world.lineage.machine.rows


def test_an_object_that_the_program_gave_up_is_never_made_again() -> None:
    world = World()
    task, oid = world.finished("f")
    world.lineage.give_up(oid)
    assert task.given_up == {oid} and not world.lineage.can_recover(oid)
