"""Objects: what can be put, how it is read back, and when its memory is given back."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sundog
from sundog.owner import context
from sundog.state import backoff
from tests.integration.gates import await_true

GET_S = 120
AT_ONCE = backoff.Schedule(free=0, base_s=0.0, cap_s=0.0)
LARGE = 1 << 20


def segments() -> int:
    """Segments of the session in use: files under its shared-memory folder that are on no free list."""
    root = Path(context.facts.session["shm_root"])
    return sum(1 for each in root.rglob("*") if each.is_file())


@dataclass
class Point:
    x: int
    y: int


# ---------------------------------------------------------------------- values
VALUES: list[Any] = [
    None,
    True,
    0,
    -(1 << 100),
    1.5,
    float("inf"),
    2 + 3j,
    "",
    "häß 😀",
    b"",
    b"\x00\xff",
    bytearray(b"abc"),
    (),
    [1, [2, [3]]],
    {"a": {"b": ()}},
    {1, 2},
    frozenset({3}),
    range(3),
    slice(1, 2),
    Ellipsis,
    datetime(2026, 1, 2, 3, 4),
    timedelta(seconds=5),
    Decimal("1.10"),
    Fraction(1, 3),
    Counter("abca"),
    OrderedDict(a=1),
    Path("/tmp/x"),
    Point(1, 2),
    ValueError,
    len,
]


def test_every_ordinary_value_comes_back_equal(ray: ModuleType) -> None:
    refs = [ray.put(value) for value in VALUES]
    assert ray.get(refs, timeout=GET_S) == VALUES

    @ray.remote
    def echo(value: Any) -> Any:
        return value

    assert ray.get([echo.remote(value) for value in VALUES], timeout=GET_S) == VALUES
    assert ray.get([echo.remote(ref) for ref in refs], timeout=GET_S) == VALUES


def test_an_exception_is_a_value_like_any_other(ray: ModuleType) -> None:
    found = ray.get(ray.put(KeyError("k")), timeout=GET_S)
    assert isinstance(found, KeyError)
    assert found.args == ("k",)


def test_functions_classes_and_instances_of_local_classes_can_be_put(ray: ModuleType) -> None:
    class Local:
        def __init__(self, n: int) -> None:
            self.n = n

        def twice(self) -> int:
            return 2 * self.n

    @ray.remote
    def use(cls: Any, instance: Any, function: Any) -> int:
        return int(cls(3).twice() + instance.twice() + function(1))

    assert ray.get(use.remote(ray.put(Local), ray.put(Local(4)), ray.put(lambda x: x + 1))) == 16


@pytest.mark.parametrize(
    "value", ["ä" * LARGE, b"z" * LARGE, bytearray(b"q" * LARGE)], ids=["str", "bytes", "bytearray"]
)
def test_large_strings_and_bytes_survive_both_ways(ray: ModuleType, value: Any) -> None:
    @ray.remote
    def echo(given: Any) -> Any:
        assert type(given) is type(value)
        return given

    assert ray.get(ray.put(value), timeout=GET_S) == value
    assert ray.get(echo.remote(value), timeout=GET_S) == value


@pytest.mark.parametrize(
    "size", [0, 1, (64 << 10) - 1, 64 << 10, (100 << 10) - 1, 100 << 10, (128 << 10) + 1]
)
def test_sizes_around_every_limit_come_back_unchanged(ray: ModuleType, size: int) -> None:
    array = np.arange(size, dtype=np.uint8)
    raw = array.tobytes()

    @ray.remote
    def echo(one: Any, two: Any) -> Any:
        return one, two

    one, two = ray.get(echo.remote(array, raw), timeout=GET_S)
    assert (one == array).all()
    assert two == raw
    assert (ray.get(ray.put(array), timeout=GET_S) == array).all()


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.arange(1 << 18).reshape(512, 512),
        np.asfortranarray(np.arange(1 << 18).reshape(512, 512)),
        np.arange(1 << 19)[::2],
        np.arange(1 << 18).reshape(512, 512).T,
        np.array([("a", 1), ("b", 2)] * (1 << 15), dtype=[("name", "U2"), ("n", "i4")]),
        np.array(["x", None, 3], dtype=object),
        np.arange(1 << 18, dtype=">i4"),
    ],
    ids=["empty", "c", "fortran", "strided", "transposed", "structured", "object", "big-endian"],
)
def test_arrays_of_every_layout_come_back_equal(ray: ModuleType, array: Any) -> None:
    @ray.remote
    def echo(given: Any) -> Any:
        return given

    for found in (ray.get(ray.put(array), timeout=GET_S), ray.get(echo.remote(array), timeout=GET_S)):
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert (found == array).all()


# ---------------------------------------------------------------------- zero-copy
def test_a_large_array_is_read_only_and_not_copied(ray: ModuleType) -> None:
    ref = ray.put(np.arange(LARGE))
    one, two = ray.get(ref, timeout=GET_S), ray.get(ref, timeout=GET_S)
    assert not one.flags.writeable
    assert one.__array_interface__["data"][0] == two.__array_interface__["data"][0]
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 1

    @ray.remote
    def try_to_write(array: Any) -> bool:
        return bool(array.flags.writeable)

    assert ray.get(try_to_write.remote(ref), timeout=GET_S) is False


def test_changing_the_original_after_put_changes_nothing(ray: ModuleType) -> None:
    array, words = np.zeros(LARGE), ["a"]
    refs = [ray.put(array), ray.put(words)]
    array[:] = 1
    words.append("b")
    found = ray.get(refs, timeout=GET_S)
    assert not found[0].any()
    assert found[1] == ["a"]


def test_an_array_outlives_its_ref_while_segments_are_recycled(ray: ModuleType) -> None:
    kept = []
    for number in range(8):
        ref = ray.put(np.full(LARGE, number, dtype=np.int64))
        kept.append(ray.get(ref, timeout=GET_S)[10:20])  # a view of a view
        del ref
    for number in range(100, 140):
        ray.get(ray.put(np.full(LARGE, number, dtype=np.int64)), timeout=GET_S)
    assert [each.tolist() for each in kept] == [[number] * 10 for number in range(8)]


def test_results_outlive_their_refs_while_workers_recycle(ray: ModuleType) -> None:
    @ray.remote
    def make(number: int) -> Any:
        return np.full(LARGE, number, dtype=np.int64)

    kept = [ray.get(make.remote(number), timeout=GET_S) for number in range(6)]
    for number in range(100, 130):
        assert ray.get(make.remote(number), timeout=GET_S)[0] == number
    assert [int(each[0]) for each in kept] == list(range(6))
    assert [int(each[-1]) for each in kept] == list(range(6))


@pytest.mark.parametrize("how", ["value", "ref", "nested"])
def test_an_actor_that_keeps_an_argument_array_never_sees_it_change(ray: ModuleType, how: str) -> None:
    @ray.remote
    class Keeper:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def keep(self, array: Any) -> None:
            if isinstance(array, list):
                array = sundog.get(array[0])
            self.kept.append(array[5:10])

        def look(self) -> list[int]:
            return [int(each.sum()) for each in self.kept]

    keeper = Keeper.remote()
    for number in range(6):
        array = np.full(LARGE, number, dtype=np.int64)
        given: Any = array if how == "value" else ray.put(array)
        ray.get(keeper.keep.remote([given] if how == "nested" else given), timeout=GET_S)
        del given
    for number in range(50, 80):
        ray.get(ray.put(np.full(LARGE, number, dtype=np.int64)), timeout=GET_S)
    assert ray.get(keeper.look.remote(), timeout=GET_S) == [5 * number for number in range(6)]


def test_a_task_that_returns_its_argument_returns_the_right_bytes(ray: ModuleType) -> None:
    @ray.remote
    def same(array: Any) -> Any:
        return array

    ref = ray.put(np.arange(LARGE))
    for _ in range(5):
        ref = same.remote(ref)
    ray.put(np.zeros(LARGE))
    assert (ray.get(ref, timeout=GET_S) == np.arange(LARGE)).all()


# ---------------------------------------------------------------------- refs in values
def test_refs_nested_in_containers_can_be_read_after_the_outer_ones_are_gone(ray: ModuleType) -> None:
    inner = [ray.put(np.full(LARGE, n)) for n in range(3)]
    outer = ray.put({"refs": inner, "deep": [(inner[0],)]})
    del inner
    found = ray.get(outer, timeout=GET_S)
    del outer
    gc.collect()
    assert [int(each[0]) for each in ray.get(found["refs"], timeout=GET_S)] == [0, 1, 2]
    assert ray.get(found["deep"][0][0], timeout=GET_S)[0] == 0


def test_refs_made_in_a_task_and_returned_outlive_the_task(ray: ModuleType) -> None:
    @ray.remote
    def make() -> Any:
        return [sundog.put(np.full(LARGE, n)) for n in range(3)], sundog.put("small")

    @ray.remote
    def other() -> None:
        return None

    many, small = ray.get(make.remote(), timeout=GET_S)
    ray.get([other.remote() for _ in range(20)], timeout=GET_S)
    assert [int(each[0]) for each in ray.get(many, timeout=GET_S)] == [0, 1, 2]
    assert ray.get(small, timeout=GET_S) == "small"


def test_refs_in_actor_state_keep_their_objects(ray: ModuleType) -> None:
    @ray.remote
    class Shelf:
        def __init__(self) -> None:
            self.refs: dict[str, Any] = {}

        def keep(self, name: str, box: list[Any]) -> None:
            self.refs[name] = box[0]

        def make(self, name: str) -> None:
            self.refs[name] = sundog.put(np.full(LARGE, 7))

        def give(self, name: str) -> Any:
            return [self.refs[name]]

        def drop(self, name: str) -> None:
            del self.refs[name]

    shelf = Shelf.remote()
    ref = ray.put(np.full(LARGE, 3))
    ray.get([shelf.keep.remote("a", [ref]), shelf.make.remote("b")], timeout=GET_S)
    del ref
    for _ in range(10):
        ray.put(np.zeros(LARGE))
    for name, expected in (("a", 3), ("b", 7)):
        box = ray.get(shelf.give.remote(name), timeout=GET_S)
        assert ray.get(box[0], timeout=GET_S)[0] == expected
    del box
    used = used_bytes(ray)
    ray.get([shelf.drop.remote("a"), shelf.drop.remote("b")], timeout=GET_S)
    await_true(lambda: used_bytes(ray) < used, "the driver's object was freed when the actor dropped it")


def used_bytes(ray: ModuleType) -> int:
    """Bytes of values in this driver's table that live in segments."""
    from sundog import engines
    from sundog.owner.rows import whole

    engine = engines.current()
    assert engine is not None
    with engine.owner.lock:
        engine.owner.objects.drain()
        return sum(value[2][1] for value in map(whole, engine.owner.ready.values()) if value[2] is not None)


# ---------------------------------------------------------------------- freeing
def test_memory_is_reused_when_the_last_ref_goes(ray: ModuleType) -> None:
    for _ in range(50):
        ref = ray.put(np.zeros(LARGE))
        del ref
    assert used_bytes(ray) == 0
    assert segments() <= 3


def test_results_dropped_unread_are_freed(ray: ModuleType) -> None:
    @ray.remote
    def make() -> Any:
        return np.zeros(LARGE)

    for _ in range(40):
        ray.wait([make.remote()], timeout=GET_S)
    await_true(lambda: used_bytes(ray) == 0, "no value in the driver's table")
    assert segments() <= 12


def test_results_dropped_before_they_exist_are_freed(ray: ModuleType) -> None:
    @ray.remote
    def make(_: int) -> Any:
        return np.zeros(LARGE)

    for number in range(20):
        make.remote(number)
    assert ray.get(make.remote(0), timeout=GET_S).nbytes == LARGE * 8
    await_true(lambda: used_bytes(ray) == 0, "no value in the driver's table")


def test_large_arguments_are_freed_after_their_task(ray: ModuleType) -> None:
    @ray.remote
    def use(array: Any) -> int:
        return int(array.nbytes)

    for _ in range(30):
        assert ray.get(use.remote(np.zeros(LARGE)), timeout=GET_S) == LARGE * 8
    await_true(lambda: used_bytes(ray) == 0, "no argument in the driver's table")
    assert segments() <= 6


def test_a_nested_object_goes_with_the_one_that_contains_it(ray: ModuleType) -> None:
    outer = ray.put([ray.put(np.zeros(LARGE)), ray.put([ray.put(np.zeros(LARGE))])])
    assert used_bytes(ray) > 2 * LARGE
    del outer
    await_true(lambda: used_bytes(ray) == 0, "the nested objects were freed")


def test_hundreds_of_refs_in_one_object_are_counted_one_for_one(ray: ModuleType) -> None:
    first = ray.put(np.zeros(LARGE))
    outer = ray.put([first, first, *[ray.put(number) for number in range(300)], [first]])
    del first
    boxes = [ray.get(outer) for _ in range(3)]
    kept = boxes[1][7]
    del outer, boxes
    await_true(lambda: used_bytes(ray) == 0, "the large object inside was freed")
    assert ray.get(kept) == 5


class Fragile:
    """Can be pickled; unpickling it fails while its flag is up."""

    broken = False

    def __init__(self, refs: list[Any]) -> None:
        self.refs = refs

    def __setstate__(self, state: dict[str, Any]) -> None:
        if Fragile.broken:
            raise ValueError("not today")
        self.__dict__.update(state)


def test_refs_of_a_value_that_cannot_be_unpickled_are_not_held_for_ever(ray: ModuleType) -> None:
    refs = [ray.put(np.zeros(LARGE)) for _ in range(12)]
    outer = ray.put([refs[:6], Fragile(refs[6:]), refs[:3]])
    Fragile.broken = True
    try:
        with pytest.raises(ValueError, match="not today"):
            ray.get(outer)
    finally:
        Fragile.broken = False
    assert len(ray.get(outer)[1].refs) == 6
    del outer, refs
    await_true(lambda: used_bytes(ray) == 0, "every object was freed")


# ---------------------------------------------------------------------- refs as Python objects
def test_refs_are_equal_and_hash_by_the_object_they_name(ray: ModuleType) -> None:
    one, two = ray.put(1), ray.put(1)
    copy = pickle.loads(pickle.dumps(one))
    assert one == copy
    assert hash(one) == hash(copy)
    assert one != two
    assert one != "something else"
    assert len({one, two, copy}) == 2
    assert {one: "found"}[copy] == "found"
    assert one.hex() == one.binary().hex()
    assert one.hex() in repr(one)
    assert ray.get(copy, timeout=GET_S) == 1


def test_a_ref_pickled_by_hand_keeps_its_object(ray: ModuleType) -> None:
    ref = ray.put(np.full(LARGE, 9))
    saved = pickle.dumps(ref)
    del ref
    for _ in range(5):
        ray.put(np.zeros(LARGE))
    assert ray.get(pickle.loads(saved), timeout=GET_S)[0] == 9


def test_a_ref_is_the_same_object_in_two_processes(ray: ModuleType) -> None:
    @ray.remote
    def identity(box: list[Any]) -> tuple[int, str, Any]:
        return os.getpid(), box[0].hex(), box

    ref = ray.put("x")
    pid, name, box = ray.get(identity.remote([ref]), timeout=GET_S)
    assert pid != os.getpid()
    assert name == ref.hex()
    assert box[0] == ref


def test_a_ref_is_not_iterable(ray: ModuleType) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(ray.put([1]))


def test_a_ref_can_be_awaited(ray: ModuleType) -> None:
    @ray.remote
    def double(x: int) -> int:
        return 2 * x

    @ray.remote
    def fail() -> None:
        raise LookupError("async")

    async def main() -> list[Any]:
        one = await double.remote(1)
        many = await asyncio.gather(*[double.remote(n) for n in range(20)])
        wrapped = await asyncio.wrap_future(double.remote(50).future())
        direct = await double.remote(7).as_future()
        with pytest.raises(LookupError, match="async"):
            await fail.remote()
        finished, pending = await asyncio.wait([asyncio.ensure_future(_as_coroutine(ray.put(3)))])
        return [one, many, wrapped, direct, [each.result() for each in finished], len(pending)]

    assert asyncio.run(main()) == [2, [2 * n for n in range(20)], 100, 14, [3], 0]


async def _as_coroutine(ref: Any) -> Any:
    return await ref


def test_an_await_with_a_timeout_leaves_the_session_usable(ray: ModuleType, tmp_path: Path) -> None:
    go = tmp_path / "go"

    @ray.remote
    def slow() -> str:
        while not go.exists():
            time.sleep(0.005)
        return "done"

    async def main() -> Any:
        ref = slow.remote()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ref, 0.05)
        go.touch()
        return await ref

    assert asyncio.run(main()) == "done"


def test_a_future_gets_the_value_or_the_error(ray: ModuleType) -> None:
    @ray.remote
    def maybe(fail: bool) -> int:
        if fail:
            raise ZeroDivisionError("f")
        return 1

    assert maybe.remote(False).future().result(GET_S) == 1
    assert isinstance(maybe.remote(True).future().exception(GET_S), ZeroDivisionError)
    import concurrent.futures

    futures = [maybe.remote(False).future() for _ in range(10)]
    done, _ = concurrent.futures.wait(futures, GET_S)
    assert len(done) == 10


def test_put_of_a_ref_is_refused(ray: ModuleType) -> None:
    with pytest.raises(TypeError, match="ObjectRef"):
        ray.put(ray.put(1))


# ---------------------------------------------------------------------- custom serializers
class Handle:
    """Something that plain pickle refuses."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        raise TypeError("this handle belongs to its process")


def test_a_registered_serializer_is_used_everywhere(ray: ModuleType) -> None:
    @ray.remote
    def read(handle: Any) -> int:
        return int(handle.number)

    with pytest.raises(TypeError, match="belongs to its process"):
        ray.put(Handle(1))
    ray.util.register_serializer(
        Handle, serializer=lambda h: h.number, deserializer=lambda n: Handle(n + 100)
    )
    try:
        assert ray.get(ray.put(Handle(1)), timeout=GET_S).number == 101
        assert ray.get(read.remote(Handle(2)), timeout=GET_S) == 102
        assert ray.get(ray.put([{"h": Handle(3)}]), timeout=GET_S)[0]["h"].number == 103
    finally:
        ray.util.deregister_serializer(Handle)
    with pytest.raises(TypeError, match="belongs to its process"):
        ray.put(Handle(1))


def test_every_attempt_of_a_task_reads_a_ref_that_the_last_one_let_go(
    ray: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The ref of one attempt dies as that of the next is born. Had the worker forgotten the object in between,
    # the answer to the question it had asked would be dropped, and the get would wait for ever.
    monkeypatch.setitem(backoff.SCHEDULES, backoff.EXCEPTION, AT_ONCE)

    @ray.remote(max_retries=60, retry_exceptions=True)
    def read_and_fail(box: list[Any]) -> None:
        raise ValueError(ray.get(box))

    with pytest.raises(ValueError, match="7"):
        ray.get(read_and_fail.remote([ray.put(7)]), timeout=120)


def test_a_large_argument_beside_a_ref_is_freed_and_the_ref_is_not(ray: ModuleType) -> None:
    @ray.remote
    def add(left: Any, right: Any) -> float:
        return float(left.sum() + right.sum())

    before = segments()
    ref = ray.put(np.ones(LARGE, np.uint8))
    for _ in range(3):
        assert ray.get(add.remote(ref, np.ones(LARGE, np.uint8)), timeout=GET_S) == 2 * LARGE
    assert ray.get(ref, timeout=GET_S).sum() == LARGE
    del ref
    gc.collect()
    engine = sundog.engines.current()
    assert engine is not None
    owner = engine.owner

    def empty() -> bool:
        with owner.lock:
            owner.objects.drain()
            return not owner.ready and not owner.refs.owned

    await_true(empty, "an object is kept without a ref")
    assert segments() - before <= 3  # on free lists
