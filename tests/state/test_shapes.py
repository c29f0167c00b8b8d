"""Whose turn it is among requests of one spec: jobs, then owners, then keys take turns."""

from __future__ import annotations

import itertools

from sundog.state.lease_spec import LeaseSpec
from sundog.state.shapes import SpecQueue, Want

SPEC = LeaseSpec((("CPU", 1.0),), "env")


def want(shape: SpecQueue, job: str, owner: bytes, key: str = "f", count: int = 9) -> Want:
    made = Want(owner, key, shape, job, count, since=0.0, turn=0)
    shape.add(made)
    return made


def served(shape: SpecQueue, turns: int) -> list[Want]:
    heads = []
    for _ in range(turns):
        head = shape.head()
        assert head is not None
        heads.append(head)
        shape.rotate(head)
    return heads


def test_jobs_take_turns_however_many_owners_each_has() -> None:
    shape = SpecQueue(SPEC)
    for owner in (b"1", b"2", b"3"):
        want(shape, "many", owner)
    want(shape, "one", b"9")

    jobs = [each.job for each in served(shape, 6)]

    assert jobs == ["many", "one"] * 3


def test_owners_of_a_job_take_turns_and_so_do_their_keys() -> None:
    shape = SpecQueue(SPEC)
    first, second = want(shape, "j", b"1", "f"), want(shape, "j", b"1", "g")
    other = want(shape, "j", b"2")

    assert served(shape, 4) == [first, other, second, other]


def test_a_want_that_has_all_it_wants_leaves_the_queue() -> None:
    shape = SpecQueue(SPEC)
    done = want(shape, "j", b"1", count=0)

    shape.rotate(done)

    assert not shape and shape.head() is None


def test_a_promoted_want_is_served_next() -> None:
    shape = SpecQueue(SPEC)
    wants = [want(shape, f"job {number}", b"1") for number in range(3)]

    shape.promote(wants[2])

    assert shape.head() is wants[2]
    assert set(map(id, shape)) == set(map(id, wants))


def test_a_want_comes_to_the_front_after_a_bounded_number_of_others() -> None:
    shape = SpecQueue(SPEC)
    for job, owner in itertools.product("ab", (b"1", b"2")):
        want(shape, job, owner)
    late = want(shape, "a", b"3")

    assert late in served(shape, 8)


def test_to_remove_what_is_not_there_is_harmless() -> None:
    shape = SpecQueue(SPEC)
    gone = want(shape, "j", b"1")
    shape.remove(gone)
    shape.remove(gone)

    assert not shape


def test_a_shape_needs_what_it_holds_and_what_its_placement_asks_for() -> None:
    shape = SpecQueue(LeaseSpec((("GPU", 1.0),), "env", placement=(("CPU", 1.0), ("GPU", 0.5))))

    assert dict(shape.need).keys() == {"CPU", "GPU"}
    assert dict(shape.need)["GPU"] == dict(shape.hold)["GPU"]
    assert shape.with_gpu and not SpecQueue(SPEC).with_gpu
