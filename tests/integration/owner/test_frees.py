"""`sundog.internal.free`: the memory goes, who reads the object is told, who has read it keeps a right value."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sundog
from sundog import refs
from sundog.exceptions import ObjectFreedError, ObjectReconstructionFailedError, RaySystemError, RayTaskError
from sundog.internal import free
from sundog.owner import context
from sundog.wire.requests import Status
from tests.integration.copies import LARGE, large, owner
from tests.integration.gates import Gate, await_true

Start = Callable[..., ModuleType]
MB = 1 << 20


def files() -> list[str]:
    """Segments in shared memory that hold an object."""
    return [
        name
        for name in os.listdir(context.facts.session["shm_root"])
        if name.count("-") == 2 and "free" not in name
    ]


def forgotten(oid: bytes) -> bool:
    """Whether this process knows nothing more of an object, once everything dropped so far has been counted."""
    me = owner()
    with me.lock:
        me.objects.drain()
    return oid not in me.ready and oid not in me.freed_early and not me.refs.is_known(oid)


@sundog.remote
def block(number: int) -> Any:
    """An array in a segment."""
    return np.full(MB, number, np.uint8)


@sundog.remote
def longer(value: bytes) -> bytes:
    """A result made of another."""
    return value + b"."


@sundog.remote
class Reader:
    """Borrows refs and reads them."""

    def __init__(self, refs: list[Any]) -> None:
        self.refs = refs
        self.kept: Any = None

    def read(self, marks: list[Any]) -> int:
        """The first byte; `marks` are read before, so that what their owner told us earlier has come."""
        sundog.get(marks)
        return int(sundog.get(self.refs[0])[0])

    def keep(self) -> None:
        """Read it, and look at it from now on."""
        self.kept = sundog.get(self.refs[0])

    def kept_sum(self) -> int:
        """Over the bytes that were kept."""
        return int(self.kept.sum())

    def free(self, marks: list[Any]) -> None:
        """Free it; returns when its owner knows."""
        free(self.refs)
        sundog.get(marks)


# ---------------------------------------------------------------------- what is left
def test_a_freed_put_leaves_memory_at_once_and_its_error_tells_who_and_where(ray: ModuleType) -> None:
    ref = ray.put(np.ones(MB, np.uint8))
    assert files()
    free([ref])
    assert not files()
    with pytest.raises(ObjectFreedError) as caught:
        ray.get(ref)
    error = caught.value
    assert (error.freed_by, error.pid, error.object_ref_hex) == (owner().me.hex(), os.getpid(), ref.hex())
    here = "in test_a_freed_put_leaves_memory_at_once_and_its_error_tells_who_and_where"
    assert error.freed_at is not None and error.freed_at.endswith(here)
    assert (
        error.call_site is not None and error.call_site.endswith(here) and error.call_site != error.freed_at
    )
    assert error.freed_at in str(error) and error.call_site in str(error)


@pytest.mark.parametrize("kind", ["small put", "small result", "large result", "failed task"])
def test_every_kind_of_object_can_be_freed(ray: ModuleType, kind: str) -> None:
    def fail() -> None:
        raise ValueError("no")

    makers: dict[str, Callable[[], Any]] = {
        "small put": lambda: ray.put(1),
        "small result": lambda: ray.remote(lambda: 5).remote(),
        "large result": lambda: large.remote(1),
        "failed task": lambda: ray.remote(fail).remote(),
    }
    ref = makers[kind]()
    ray.wait([ref], timeout=120)
    free(ref)
    assert not files()
    with pytest.raises(ObjectFreedError):
        ray.get(ref)
    oid = ref.binary()
    del ref
    assert forgotten(oid) and not owner().lineage.machine.rows


@pytest.mark.parametrize(("count", "reads"), [(1, 0), (20, 1), (20, 3)])
def test_what_a_freed_object_contained_is_let_go(ray: ModuleType, count: int, reads: int) -> None:
    inner = [ray.put(np.ones(MB, np.uint8)) for _ in range(count)]
    outer = ray.put(inner)
    oids = [ref.binary() for ref in inner]
    inner.clear()
    for _ in range(reads):
        assert len(ray.get(outer)) == count
    assert not any(forgotten(oid) for oid in oids)
    free([outer])
    assert all(forgotten(oid) for oid in oids)


def test_a_second_free_changes_nothing(ray: ModuleType) -> None:
    ref = ray.put(b"x" * LARGE)
    free([ref, ref])
    with pytest.raises(ObjectFreedError) as first:
        ray.get(ref)
    free([ref])
    with pytest.raises(ObjectFreedError) as second:
        ray.get(ref)
    assert first.value.freed_at == second.value.freed_at


# ---------------------------------------------------------------------- who has read it
def test_values_that_were_read_before_stay_right_though_segments_are_used_again(ray: ModuleType) -> None:
    refs = [ray.put(np.full(MB, number, np.uint8)) for number in range(4)]
    values = ray.get(refs)
    free(refs)
    for _ in range(3):  # a segment that went to the free list would be written now
        more = [ray.put(np.full(MB, 99, np.uint8)) for _ in range(6)]
        del more
    assert [int(value.sum()) for value in values] == [number * MB for number in range(4)]
    del values
    assert not owner().segments._views and not owner().segments._abandoned


def test_a_segment_that_a_worker_made_is_not_written_again_while_a_reader_looks_at_it(
    ray_session: Start,
) -> None:
    ray = ray_session(num_cpus=1)
    refs = [block.remote(number) for number in range(4)]
    values = ray.get(refs)
    names = {owner().ready[ref.binary()][2][0] for ref in refs}
    free(refs)
    for number in range(12):
        ray.get(block.remote(50 + number))
    assert [int(value.sum()) for value in values] == [number * MB for number in range(4)]
    mapped = ray.get(
        ray.remote(lambda: [*owner().segments._write_maps, *owner().segments._read_maps]).remote()
    )
    assert not names & {*mapped, *files()}, "nor does its maker keep it mapped"


def test_a_reader_in_another_process_keeps_what_it_looks_at(ray: ModuleType) -> None:
    ref = block.remote(7)
    reader = Reader.remote([ref])
    ray.get(reader.keep.remote())
    free([ref])
    for number in range(8):
        ray.get([block.remote(number), ray.put(np.full(MB, number, np.uint8))])
    assert ray.get(reader.kept_sum.remote()) == 7 * MB


def test_a_maker_that_dies_takes_nothing_from_under_a_reader(ray: ModuleType) -> None:
    ref = block.remote(7)
    value = ray.get(ref)
    lane = owner().ready[ref.binary()][4]
    with owner().lock:
        lane.inflight[b"busy"] = None  # so that what it is told waits for its next packet
        free([ref])
        del lane.inflight[b"busy"]
        assert lane.freed
    os.kill(lane.pid, 9)
    await_true(lambda: lane.retired, "its death is known here")
    assert int(value.sum()) == 7 * MB


def test_threads_that_read_while_others_free_get_the_value_or_the_error(
    ray: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For the text of an error all objects of the process are looked through: in this one that takes long.
    monkeypatch.setattr(refs, "creation_sites", lambda _names: {})
    wrong: list[object] = []

    def read(ref: Any, start: threading.Barrier) -> None:
        start.wait()
        try:
            value = ray.get(ref)
        except ObjectFreedError:
            return
        if int(value.sum()) != MB:
            wrong.append(value)

    for turn in range(30):
        ref = ray.put(np.ones(MB, np.uint8)) if turn % 2 else block.remote(1)
        ray.wait([ref], timeout=120)
        start = threading.Barrier(4)
        threads = [threading.Thread(target=read, args=(ref, start)) for _ in range(3)]
        for thread in threads:
            thread.start()
        start.wait()
        free([ref])
        for thread in threads:
            thread.join()
    assert not wrong


# ---------------------------------------------------------------------- who reads it later
def test_wait_await_arguments_and_nested_refs_all_tell(ray: ModuleType) -> None:
    ref = large.remote(1)
    ray.wait([ref], timeout=120)
    free([ref])
    assert ray.wait([ref], timeout=0) == ([ref], [])

    async def read() -> Any:
        return await ref

    with pytest.raises(ObjectFreedError):
        asyncio.run(read())
    with pytest.raises(ObjectFreedError):
        ray.get(longer.remote(ref))
    with pytest.raises(ObjectFreedError) as nested:
        ray.get(Reader.remote([ref]).read.remote([]))
    assert isinstance(nested.value, RayTaskError)


@pytest.mark.parametrize("size", [10, MB])
def test_a_borrower_that_has_the_value_hears_of_it(ray: ModuleType, size: int) -> None:
    ref = ray.put(np.full(size, 3, np.uint8))
    reader = Reader.remote([ref])
    assert ray.get(reader.read.remote([])) == 3
    free([ref])
    with pytest.raises(ObjectFreedError) as caught:
        ray.get(reader.read.remote([ray.put("a mark")]))
    assert caught.value.freed_by == owner().me.hex()
    assert caught.value.call_site, "also a borrower says where the ref was made"


def test_a_borrower_may_free(ray: ModuleType) -> None:
    ref = ray.put(np.ones(MB, np.uint8))
    value = ray.get(ref)
    reader = Reader.remote([ref])
    ray.get(reader.free.remote([ray.put("a mark")]))
    assert not files()
    with pytest.raises(ObjectFreedError) as caught:
        ray.get(ref)
    assert caught.value.freed_by != owner().me.hex()
    assert caught.value.freed_at is not None and caught.value.freed_at.endswith("in Reader.free")
    assert int(value.sum()) == MB


def test_who_waits_for_an_object_that_is_freed_meanwhile_is_woken(ray: ModuleType, tmp_path: Path) -> None:
    gate = Gate(tmp_path)

    @ray.remote
    def make() -> bytes:
        gate.enter()
        return b"x" * LARGE

    ref = make.remote()
    after = longer.remote(ref)
    caught: list[BaseException | None] = []
    threads = [
        threading.Thread(target=lambda: caught.append(_error_of(lambda: ray.get(ref)))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    borrower = Reader.remote([ref]).read.remote([])
    await_true(gate.inside, "the task runs")
    free([ref])
    for thread in threads:
        thread.join()
    assert [type(error) for error in caught] == [ObjectFreedError] * 3
    for waiting in (after, borrower):
        with pytest.raises(ObjectFreedError):
            ray.get(waiting)
    gate.open()
    await_true(lambda: not owner().table, "the task ends, although nobody wants its result")
    with pytest.raises(ObjectFreedError):
        ray.get(ref)
    assert not owner().freed_early
    await_true(lambda: not files(), "its maker hears that nobody wants it, and may use its memory again")


def _error_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except BaseException as error:
        return error
    return None


# ---------------------------------------------------------------------- never made again
def test_a_freed_result_is_not_computed_again(ray: ModuleType, tmp_path: Path) -> None:
    ref = large.remote(1, str(tmp_path / "runs"))
    ray.wait([ref], timeout=120)
    free([ref])
    for _ in range(2):
        with pytest.raises(ObjectFreedError):
            ray.get(ref)
    assert (tmp_path / "runs").read_text() == "1\n"


@pytest.mark.parametrize("kind", ["result", "result whose ref is gone", "put"])
def test_a_lost_result_that_needs_a_freed_object_says_so(ray: ModuleType, kind: str, tmp_path: Path) -> None:
    first = ray.put(b"\1" * LARGE) if kind == "put" else large.remote(1, str(tmp_path / "runs"))
    second = longer.remote(first)
    ray.wait([second], timeout=120)
    free([first])
    if "gone" in kind:
        del first
    name = owner().ready[second.binary()][2][0]
    os.unlink(owner().segments.path(name))
    with pytest.raises(ObjectReconstructionFailedError) as caught:
        ray.get(second)
    assert caught.value.reason == "FREED"
    if kind != "put":
        assert (tmp_path / "runs").read_text() == "1\n"


def test_another_result_of_the_same_task_can_still_be_made_again(ray: ModuleType) -> None:
    @ray.remote(num_returns=2)
    def pair() -> tuple[bytes, bytes]:
        return b"a" * LARGE, b"b" * LARGE

    first, second = pair.remote()
    ray.wait([first, second], num_returns=2, timeout=120)
    free([first])
    os.unlink(owner().segments.path(owner().ready[second.binary()][2][0]))
    assert ray.get(second) == b"b" * LARGE
    with pytest.raises(ObjectFreedError):
        ray.get(first)
    await_true(lambda: len(files()) == 1, "the maker of the one that was not wanted may use its memory again")


def test_an_item_of_a_generator_is_freed_and_the_others_are_not(ray: ModuleType) -> None:
    @ray.remote(num_returns="streaming")
    def items() -> Any:
        for number in range(3):
            yield bytes([number]) * LARGE

    refs = list(items.remote())
    free([refs[1]])
    assert ray.get(refs[2])[0] == 2 and ray.get(refs[0])[0] == 0
    with pytest.raises(ObjectFreedError):
        ray.get(refs[1])


# ---------------------------------------------------------------------- the store
def test_freed_objects_make_room_in_the_store_while_their_refs_live(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=24 * MB)
    refs = []
    for number in range(60):
        refs.append(ray.put(np.full(MB, number, np.uint8)))
        free(refs[-1:])
    assert owner().control.request(Status())["store"]["spilled_bytes_total"] == 0


def test_freed_objects_leave_the_disk_to_which_they_were_spilled(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=8 * MB)
    refs = [ray.put(np.full(MB, number, np.uint8)) for number in range(30)]
    folder = Path(context.facts.session["spill_folders"][0])
    await_true(lambda: folder.is_dir() and any(folder.iterdir()), "objects are spilled")
    value = ray.get(refs[0])
    free(refs)
    await_true(lambda: not any(each.is_file() for each in folder.rglob("*")), "nothing is left on disk")
    assert not files() and int(value.sum()) == 0 and value.nbytes == MB
    with pytest.raises(ObjectFreedError):
        ray.get(refs[5])


# ---------------------------------------------------------------------- how it is called
@pytest.mark.parametrize("wrong", [None, 1, "ref", (1,), [1], [None], ["ref"]])
def test_what_is_not_a_ref_is_refused(ray: ModuleType, wrong: Any) -> None:
    with pytest.raises(TypeError, match="a list of refs"):
        free(wrong)


def test_nothing_to_free_is_no_mistake(ray: ModuleType) -> None:
    free([])
    free([], local_only=True)


def test_without_a_session_there_is_nothing_to_free() -> None:
    with pytest.raises(RaySystemError):
        free([])


def test_a_program_that_says_import_ray_finds_it(tmp_path: Path, leak_check: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import ray\n"
        "ray.init(num_cpus=1)\n"
        "ref = ray.put('x' * 200_000)\n"
        "ray.internal.free([ref], local_only=False)\n"
        "try:\n"
        "    ray.get(ref)\n"
        "except ray.exceptions.ObjectFreedError as error:\n"
        "    from ray.internal import free\n"
        "    print('freed at line', error.freed_at.split(':')[1].split()[0], free is ray.internal.free)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "sundog.cli", "run", str(program)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "freed at line 4 True\n", done.stderr
