"""What this process holds, for `sundog memory`."""

from __future__ import annotations

from typing import Any

from sundog.ids import result_id
from sundog.owner.holdings import report
from sundog.owner.rows import Fn, Task
from sundog.wire.lanes import OK
from tests.owner.fakes import ME, OTHER, make_owner


def _owner() -> Any:
    owner = make_owner()
    owner.actors.scopes = set()
    return owner


def _held(owner: Any, number: int, size: int, segment: str = "") -> bytes:
    oid = result_id(ME + bytes([number]) * 8, 1)
    location = (segment, size, [(0, size)]) if segment else None
    owner.refs.hold_new(oid)
    owner.objects.store(oid, (OK, b"" if segment else b"x" * size, location, None, None))
    return oid


def test_the_largest_come_first_and_the_others_are_counted() -> None:
    owner = _owner()
    _held(owner, 1, 10)
    largest = _held(owner, 2, 5000, "segment-2")
    _held(owner, 3, 300)
    told = report(owner, 2)
    assert [each.size_bytes for each in told.references] == [5000, 300]
    assert (told.references[0].object_id, told.references[0].segment) == (largest.hex(), "segment-2")
    assert told.references[1].segment == ""
    assert told.omitted == 1
    [total] = told.totals
    assert (total.kind, total.references, total.size_bytes) == ("LOCAL_REFERENCE", 3, 5310)


def test_a_result_that_is_not_there_has_no_size_and_the_time_of_its_task() -> None:
    owner = _owner()
    task = Task(owner.ids.task(), Fn(1, "f"), None, 123.0)
    owner.table[task.id] = task
    [reference] = report(owner, 10).references
    assert (reference.size_bytes, reference.since_s, reference.status) == (
        -1,
        123.0,
        "PENDING_NODE_ASSIGNMENT",
    )
    assert report(owner, 10).totals[0].size_bytes == 0


def test_the_processes_that_borrow_an_object_are_named() -> None:
    owner = _owner()
    oid = _held(owner, 1, 10)
    owner.refs.owned[oid].borrowers[OTHER] = 1
    [reference] = report(owner, 10).references
    assert reference.borrowers == (OTHER.hex(),)


def test_a_process_that_holds_nothing_says_so() -> None:
    told = report(_owner(), 10)
    assert (told.references, told.totals, told.omitted) == ((), (), 0)
