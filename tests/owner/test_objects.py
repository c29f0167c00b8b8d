"""The objects of one process, without a session: values, waiters, counts, and what is freed when."""

from __future__ import annotations

from typing import Any

import pytest

from sundog import refs
from sundog.exceptions import ObjectLostError, OufOfBandObjectRefSerializationException
from sundog.ids import task_of
from sundog.owner.lanes import LeasedLane
from sundog.owner.objects import CopyLost, Objects
from sundog.owner.rows import Fn, Task
from sundog.refs import ObjectRef
from sundog.wire.lanes import ERROR, OK
from tests.owner.fakes import ME, OTHER, FakeAround, FakeSegments, make_objects, new_id


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Objects:
    made = make_objects()
    # What this test's refs report to; those of other tests report to nobody.
    monkeypatch.setattr(refs, "_note", made.ops.append)
    return made


def around(objects: Objects) -> FakeAround:
    assert isinstance(objects.around, FakeAround)
    return objects.around


def ended(objects: Objects) -> list[tuple[str, str]]:
    segments: Any = objects.segments
    assert isinstance(segments, FakeSegments)
    return segments.ended


def test_what_is_put_is_read_and_is_gone_with_its_last_ref(objects: Objects) -> None:
    oid = objects.put({"a": 1})
    assert objects.load(oid) == {"a": 1}
    objects.ops.append(oid)  # its one ref dies
    objects.drain()
    assert objects.value(oid) is None and not objects.refs.is_known(oid)


def test_refs_inside_a_value_hold_their_objects_until_it_is_gone(objects: Objects) -> None:
    inner = objects.put(1)
    ref: ObjectRef[Any] = ObjectRef(inner, None)
    outer = objects.put([ref])
    del ref
    objects.drain()
    assert objects.value(inner) is not None
    objects.ops.append(outer)
    objects.drain()
    assert objects.value(outer) is None and objects.value(inner) is None


def test_a_ref_born_before_the_last_one_died_keeps_the_object_whatever_is_counted_first(
    objects: Objects,
) -> None:
    oid = objects.put(1)
    objects.ops.extend([oid, (oid,)])  # the death stands before the birth
    objects.refs.hold(oid)
    objects.drain()
    assert objects.value(oid) is not None


def test_waiters_are_woken_once_and_tasks_go_when_the_last_argument_is_here(objects: Objects) -> None:
    first, second = new_id(), new_id()
    task = Task(b"t" * 16, Fn(1, "f"), None, 0.0)
    task.missing = 2
    woken: list[bytes] = []
    objects.waiters[first] = [woken.append]
    objects.dependents[first] = objects.dependents[second] = [task]
    objects.store(first, (OK, b"", None, None, None))
    assert woken == [first] and around(objects).queued == []
    objects.store(second, (OK, b"", None, None, None))
    assert woken == [first] and around(objects).queued == [task]


def test_a_result_that_was_freed_before_it_came_is_dropped_with_its_segment(objects: Objects) -> None:
    oid = new_id()
    objects.table[task_of(oid)] = Task(task_of(oid), Fn(1, "f"), None, 0.0)
    objects.free(oid)
    assert around(objects).notes == [("nobody asks", oid)]
    objects.store(oid, (OK, b"", ("s", 8, []), None, None))
    assert objects.value(oid) is None and ended(objects) == [("recycled", "s")]


def test_a_segment_goes_back_to_the_worker_that_made_it_or_is_removed_if_that_is_gone(
    objects: Objects,
) -> None:
    lane = LeasedLane(b"w" * 8, 1, None, None, lambda *_: None)  # type: ignore[arg-type]
    name = f"x-{lane.worker.hex()}-0"
    lane.inflight[b"t"] = Task(b"t" * 16, Fn(1, "f"), None, 0.0)
    for retired, expected in ((True, ("unlinked", name)), (False, ("unlinked", name))):
        lane.retired = retired
        objects.discard((OK, b"", (name, 8, []), None, lane))
        assert ended(objects)[-1] == expected, "without a socket there is nobody to give it to"


def test_a_borrowed_object_is_forgotten_with_its_last_ref_and_its_owner_is_told(objects: Objects) -> None:
    oid = new_id(OTHER)
    objects.refs.accept(OTHER, [oid])  # it came from its owner, who counts us
    objects.store(oid, (OK, b"", ("s", 8, []), None, None))
    objects.refs.drop(oid)
    objects.carry_out()
    assert around(objects).words == [(OTHER, ("unborrow", oid, 1))]
    assert around(objects).notes == [("forgot", oid)]
    assert objects.value(oid) is None and ended(objects) == [("forgotten", "s")]


def test_a_missing_object_is_asked_for_awaited_or_failed(objects: Objects) -> None:
    theirs, coming, unknown = new_id(OTHER), new_id(), new_id()
    around(objects).made.add(coming)
    for oid in (theirs, coming, unknown):
        objects.ask_for(oid)
    assert around(objects).notes == [("asked", theirs)]
    assert objects.value(theirs) is None and objects.value(coming) is None
    value = objects.value(unknown)
    assert value is not None and value[0] == ERROR
    with pytest.raises(ObjectLostError, match="unknown"):
        objects.load(unknown)


def test_a_copy_that_is_gone_is_told_from_a_value_that_is_an_error(objects: Objects) -> None:
    oid = new_id()
    segments: Any = objects.segments
    segments.lost.add("s")
    objects.store(oid, (OK, b"", ("s", 8, []), None, None))
    with pytest.raises(CopyLost) as lost:
        objects.load(oid)
    assert (lost.value.oid, lost.value.segment) == (oid, "s")
    objects.fail_object(oid, KeyError("k"))
    with pytest.raises(KeyError):
        objects.load(oid)


def test_what_cannot_be_pickled_is_named(objects: Objects) -> None:
    with pytest.raises(TypeError, match=r"put\(\)"):
        objects.put({"lock": objects.lock})


def test_a_ref_that_is_pickled_by_hand_stays_or_is_refused() -> None:
    objects = make_objects()
    oid = ME + b"x" * 12
    objects.pin_forever(oid)
    assert list(objects.ops) == [(oid,)]
    with pytest.raises(OufOfBandObjectRefSerializationException, match="forbids"):
        make_objects(uncounted_allowed=False).pin_forever(oid)
