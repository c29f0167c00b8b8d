"""Losing the copy of an object: made again, or one true error. Segments are removed as a disk or a user might."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sundog
from sundog.owner.rows import whole
from sundog.util.state import list_objects
from tests.integration.copies import LARGE, large, owner
from tests.integration.gates import await_true

Start = Callable[..., ModuleType]


def remove_copy(ref: Any) -> None:
    """Remove the segment behind a ref that is ready here, as if its disk had failed."""
    sundog.wait([ref], timeout=120)
    segments = owner().segments
    name = owner().ready[ref.binary()][2][0]
    os.unlink(segments.path(name))
    segments.forget(name)  # a mapping that this process made while reading would hide the loss


def copies() -> int:
    """How many objects of this process live in segments, once everything dropped so far has been counted."""
    with owner().lock:
        owner().objects.drain()
    return sum(1 for value in map(whole, owner().ready.values()) if value[2] is not None)


@sundog.remote
def longer(value: bytes, more: bytes = b"") -> bytes:
    """A result made of another."""
    return value + more


@sundog.remote
def read(refs: list[Any]) -> bytes:
    """Reads a ref that it was lent; the first and last byte."""
    value = sundog.get(refs[0])
    return bytes([value[0], value[-1]])


# ---------------------------------------------------------------------- made again
def test_a_lost_result_is_computed_again(ray: ModuleType, tmp_path: Path) -> None:
    ref = large.remote(1, str(tmp_path / "runs"))
    remove_copy(ref)
    assert ray.get(ref) == b"\1" * LARGE
    assert (tmp_path / "runs").read_text() == "1\n1\n"


def test_a_chain_is_computed_again_from_values_that_were_freed(ray: ModuleType) -> None:
    first = large.remote(1)
    second = longer.remote(first, b"a")
    third = longer.remote(second, b"b")
    ray.wait([third], timeout=120)
    del first, second
    assert copies() == 1, "arguments keep their lineage, not their values"
    remove_copy(third)
    assert ray.get(third) == b"\1" * LARGE + b"ab"
    assert owner().lineage.rebuilt == 3
    del third
    assert copies() == 0 and not owner().lineage.machine.rows


def test_a_small_argument_is_kept_with_its_task(ray: ModuleType) -> None:
    value = large.remote(1)
    mark = longer.remote(ray.put(b"a"), b"b")
    ref = longer.remote(value, mark)
    ray.wait([ref], timeout=120)
    del mark
    remove_copy(ref)
    assert ray.get(ref)[-3:] == b"\1ab"


def test_the_maker_of_a_lost_copy_keeps_nothing_of_it(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote
    def mapped() -> list[str]:
        return list(owner().segments._write_maps)

    for _ in range(100):
        ref = large.remote(2)
        ray.wait([ref])
        name = owner().ready[ref.binary()][2][0]
        if name in ray.get(mapped.remote()):
            break  # into a used segment, which its maker keeps mapped
    else:
        pytest.fail("no segment was used again")
    remove_copy(ref)
    assert ray.get(ref)[:1] == b"\2"
    assert name not in ray.get(mapped.remote())


def test_an_argument_is_made_again_before_the_task_that_needs_it(ray: ModuleType) -> None:
    ref = large.remote(1)
    remove_copy(ref)
    once = longer.options(max_retries=0)
    assert ray.get(once.remote(ref, b"x"), timeout=120)[-2:] == b"\1x"


def test_a_put_lives_on_while_a_result_made_of_it_may_be_lost(ray: ModuleType) -> None:
    base = ray.put(b"p" * LARGE)
    ref = longer.remote(base, b"x")
    ray.wait([ref], timeout=120)
    del base
    remove_copy(ref)
    assert ray.get(ref)[-2:] == b"px"
    del ref
    assert copies() == 0 and not owner().lineage.machine.rows


def test_a_borrower_finds_the_loss_and_reads_the_next_copy(ray: ModuleType) -> None:
    ref = large.remote(7)
    remove_copy(ref)
    assert ray.get(read.remote([ref]), timeout=120) == b"\7\7"
    assert owner().lineage.rebuilt == 1


def test_a_borrower_that_gave_up_is_forgotten_with_the_object(ray: ModuleType, tmp_path: Path) -> None:
    path = str(tmp_path / "gate")
    os.mkfifo(path)

    @ray.remote
    def slow() -> None:
        open(path).close()

    @ray.remote
    def impatient(refs: list[Any]) -> bool:
        try:
            sundog.get(refs[0], timeout=0.05)
        except sundog.exceptions.GetTimeoutError:
            return True
        return False

    ref = slow.remote()
    assert ray.get(impatient.remote([ref]), timeout=120)
    assert ref.binary() in owner().waiters
    del ref
    open(path, "w").close()
    while owner().table:
        ray.get(impatient.remote([ray.put(0)]), timeout=120)
    assert not owner().waiters and not owner().peers._asked


def test_many_readers_cause_one_run(ray: ModuleType, tmp_path: Path) -> None:
    ref = large.remote(1, str(tmp_path / "runs"))
    remove_copy(ref)
    threads = [threading.Thread(target=ray.get, args=(ref,)) for _ in range(4)]
    tasks = [read.remote([ref]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ray.get(tasks, timeout=120) == [b"\1\1"] * 4
    assert (tmp_path / "runs").read_text() == "1\n1\n"


def test_a_future_and_an_await_get_the_next_copy(ray: ModuleType) -> None:
    ref = large.remote(1)
    remove_copy(ref)
    assert len(ref.future().result(timeout=120)) == LARGE
    remove_copy(ref)

    async def wait_for_it() -> bytes:
        value: bytes = await ref
        return value

    assert len(asyncio.run(wait_for_it())) == LARGE


def test_only_the_lost_one_of_several_results_is_replaced(ray: ModuleType) -> None:
    @ray.remote(num_returns=3)
    def several() -> Any:
        return os.urandom(LARGE), os.urandom(LARGE), b"small"

    first, second, third = several.remote()
    kept = ray.get(second)
    before = bytes(kept)
    ray.wait([first], timeout=120)
    remove_copy(first)
    assert len(ray.get(first)) == LARGE
    assert ray.get(second) == before and ray.get(third) == b"small"
    del first, second, third, kept
    assert copies() == 0 and not owner().lineage.machine.rows


def test_items_of_a_generator_are_made_again(ray: ModuleType) -> None:
    @ray.remote
    def items() -> Iterator[bytes]:
        for mark in range(3):
            yield bytes([mark]) * LARGE

    refs = list(items.remote())
    remove_copy(refs[1])
    assert ray.get(refs[1], timeout=120) == b"\1" * LARGE
    assert [ray.get(ref)[0] for ref in refs] == [0, 1, 2]
    del refs
    assert copies() == 0 and not owner().lineage.machine.rows


def test_an_item_lost_while_its_generator_runs_comes_with_its_next_run(
    ray: ModuleType, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    @ray.remote(_generator_backpressure_num_objects=1)
    def items() -> Iterator[bytes]:
        yield b"\1" * LARGE
        yield b"\2" * LARGE

    stream = items.remote()
    first = next(stream)
    remove_copy(first)
    reader = threading.Thread(target=lambda: gate.write_bytes(ray.get(first)[:1]))
    reader.start()
    assert len(list(stream)) == 1
    reader.join(120)
    assert gate.read_bytes() == b"\1"


def test_items_of_a_generator_that_was_closed_are_made_again(ray: ModuleType) -> None:
    @ray.remote(_generator_backpressure_num_objects=1)
    def endless() -> Iterator[bytes]:
        while True:
            yield b"\3" * LARGE

    generator = endless.remote()
    ref = next(generator)
    generator.close()
    remove_copy(ref)
    assert ray.get(ref, timeout=120)[:1] == b"\3"


def test_dynamic_results_are_made_again(ray: ModuleType) -> None:
    @ray.remote(num_returns="dynamic")
    def items() -> Iterator[bytes]:
        yield b"\1" * LARGE
        yield b"\2" * LARGE

    first, second = list(ray.get(items.remote()))
    remove_copy(second)
    assert ray.get(second, timeout=120)[:1] == b"\2" and ray.get(first)[:1] == b"\1"


def test_an_actors_result_is_made_again_only_with_max_task_retries(ray: ModuleType) -> None:
    @ray.remote
    class Maker:
        def make(self) -> bytes:
            return b"m" * LARGE

    retried = Maker.options(max_task_retries=1).remote()
    ref = retried.make.remote()
    remove_copy(ref)
    assert len(ray.get(ref, timeout=120)) == LARGE
    plain = Maker.remote()
    ref = plain.make.remote()
    remove_copy(ref)
    with pytest.raises(ray.exceptions.ObjectReconstructionFailedError, match="max_task_retries=0"):
        ray.get(ref)


def test_a_call_waits_for_a_lost_result_of_its_own_actor(ray: ModuleType) -> None:
    @ray.remote(max_task_retries=-1)
    class Maker:
        def make(self) -> bytes:
            return b"m" * LARGE

        def add(self, value: bytes, number: int) -> int:
            self.seen = [*getattr(self, "seen", ()), number]
            return len(value)

        def order(self) -> list[int]:
            return self.seen

    actor = Maker.remote()
    first = actor.make.remote()
    remove_copy(first)
    # The call that makes it again must run before those that wait for it, which keep their order.
    sizes = [actor.add.remote(first, number) for number in range(5)]
    assert ray.get(sizes, timeout=120) == [LARGE] * 5
    assert ray.get(actor.order.remote(), timeout=120) == list(range(5))


def test_a_constructors_argument_is_made_again(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1)

    @ray.remote(num_cpus=1)
    class Keeper:
        def __init__(self, value: bytes) -> None:
            self.value = value

        def mark(self) -> int:
            return self.value[0]

    ref = large.remote(5)
    remove_copy(ref)
    assert ray.get(Keeper.remote(ref).mark.remote(), timeout=120) == 5


def test_segments_outlive_the_worker_that_made_them(ray: ModuleType) -> None:
    @ray.remote
    def make() -> Any:
        return os.getpid(), b"w" * LARGE

    pid, ref = make.options(num_returns=2).remote()
    ray.wait([ref], timeout=120)
    dead = ray.get(pid)
    os.kill(dead, signal.SIGKILL)
    while any(lane.pid == dead for lane in owner().dispatch.lanes.values()):
        ray.get(large.remote(0))
    assert ray.get(ref) == b"w" * LARGE
    assert owner().lineage.rebuilt == 0


def test_results_of_a_task_that_raised_are_freed_like_any(ray: ModuleType) -> None:
    @ray.remote(num_returns="dynamic")
    def items() -> Iterator[bytes]:
        yield b"\1" * LARGE
        raise ValueError

    first, second = ray.get(items.remote())
    assert ray.get(first)[:1] == b"\1"
    with pytest.raises(ValueError):
        ray.get(second)
    del first, second
    assert copies() == 0
    await_true(  # the worker that made it hears of it, and keeps it for its next result
        lambda: all(name.startswith(("free-", ".")) for name in os.listdir(owner().segments.shm_root)),
        "nothing but free segments",
    )


def test_a_lost_item_of_a_generator_that_waits_for_its_consumer_is_made_again(ray: ModuleType) -> None:
    @ray.remote(num_returns="streaming", _generator_backpressure_num_objects=1)
    def items() -> Iterator[bytes]:
        for number in range(4):
            yield bytes([number]) * LARGE

    generator = items.remote()
    first = next(generator)
    assert ray.get(first, timeout=120)[:1] == b"\0"
    remove_copy(first)  # the generator has not ended: it waits until somebody reads on
    assert ray.get(first, timeout=120)[:1] == b"\0"
    assert [ray.get(ref, timeout=120)[0] for ref in generator] == [1, 2, 3]


# ---------------------------------------------------------------------- cannot be
def test_a_lost_put_says_what_and_where(ray: ModuleType) -> None:
    ref = ray.put(b"p" * LARGE)
    remove_copy(ref)
    with pytest.raises(ray.exceptions.ObjectLostError, match="from put") as caught:
        ray.get(ref)
    assert type(caught.value) is ray.exceptions.ObjectLostError
    assert caught.value.object_ref_hex == ref.hex()
    assert caught.value.call_site == ref.call_site()
    assert "test_lineage.py" in str(caught.value.call_site) and ref.call_site() in str(caught.value)


def test_a_task_whose_argument_is_a_lost_put_fails_with_that(ray: ModuleType) -> None:
    ref = ray.put(b"p" * LARGE)
    remove_copy(ref)
    with pytest.raises(ray.exceptions.ObjectLostError, match=ref.hex()):
        ray.get(longer.remote(ref), timeout=120)


def test_the_attempts_are_counted_and_the_chain_is_shown(ray: ModuleType) -> None:
    first = large.options(max_retries=1).remote(1)
    second = longer.remote(first, b"x")
    ray.wait([second], timeout=120)
    remove_copy(first)
    ray.get(first)
    remove_copy(first)
    with pytest.raises(ray.exceptions.ObjectReconstructionFailedError, match="run 2 times") as caught:
        ray.get(first)
    assert caught.value.reason == "MAX_ATTEMPTS_EXCEEDED"
    remove_copy(second)
    with pytest.raises(ray.exceptions.ObjectReconstructionFailedError) as caught:
        ray.get(second)
    assert [name for name, _ in caught.value.chain] == [second.hex(), first.hex()]
    assert "longer()" in str(caught.value) and first.hex() in str(caught.value)


def test_beyond_max_lineage_bytes_the_error_says_so(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, _system_config={"max_lineage_bytes": 1000})
    old, new = large.remote(1), large.remote(2)
    ray.wait([old, new], num_returns=2, timeout=120)
    remove_copy(new)
    assert len(ray.get(new)) == LARGE
    remove_copy(old)
    with pytest.raises(ray.exceptions.ObjectReconstructionFailedError, match="max_lineage_bytes") as caught:
        ray.get(old)
    assert caught.value.reason == "LINEAGE_EVICTED"


def test_an_object_of_a_dead_worker_names_owner_pid_cause_and_site(ray: ModuleType) -> None:
    @ray.remote
    class Maker:
        def make(self) -> Any:
            return [sundog.put(b"o" * LARGE)], os.getpid()

    maker = Maker.remote()
    [ref], pid = ray.get(maker.make.remote())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(maker.make.remote())
    with pytest.raises(ray.exceptions.OwnerDiedError, match="SIGKILL") as caught:
        ray.get(ref, timeout=120)
    error = caught.value
    assert error.pid == pid and error.signal == signal.SIGKILL
    assert error.owner_id == ref.hex()[:16]
    assert "in test_an_object_of_a_dead_worker" in str(error.call_site), "the site travelled with the ref"


def test_a_lost_object_of_another_worker_is_that_workers_to_answer_for(ray: ModuleType) -> None:
    @ray.remote
    class Maker:
        def make(self) -> Any:
            self.ref = large.remote(9)
            sundog.wait([self.ref])
            return [self.ref, sundog.put(b"p" * LARGE)]

    maker = Maker.remote()
    made, put = ray.get(maker.make.remote())
    remove_copy(made)
    assert ray.get(made, timeout=120) == b"\x09" * LARGE
    remove_copy(put)
    with pytest.raises(ray.exceptions.ObjectLostError, match="from put"):
        ray.get(put, timeout=120)


@pytest.mark.parametrize("nested", [False, True])
def test_a_lost_result_made_of_a_dead_workers_object_says_that_its_owner_died(
    ray: ModuleType, nested: bool
) -> None:
    @ray.remote(max_restarts=0)
    class Maker:
        def make(self) -> Any:
            return [sundog.put(b"i" * LARGE)]

        def end(self) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    @ray.remote
    def copy(value: Any) -> bytes:
        return bytes(sundog.get(value[0]) if isinstance(value, list) else value)

    maker = Maker.remote()
    [inner] = ray.get(maker.make.remote())
    result = copy.remote([inner] if nested else inner)
    assert ray.get(result, timeout=120) == b"i" * LARGE
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(maker.end.remote())
    # What the dead process made goes a moment after the news of its death; until then it can be read.
    left = f"-{inner.hex()[:16]}-"
    await_true(
        lambda: not [name for name in os.listdir(owner().segments.shm_root) if left in f"-{name}-"],
        "the segments of the dead process are removed",
    )
    with pytest.raises(ray.exceptions.OwnerDiedError):
        ray.get(inner, timeout=120)
    remove_copy(result)
    with pytest.raises(ray.exceptions.OwnerDiedError, match=inner.hex()) as caught:
        ray.get(result, timeout=120)
    assert inner.hex()[:16] in str(caught.value)


# ---------------------------------------------------------------------- creation sites
def test_every_way_to_make_a_ref_notes_its_site(ray: ModuleType) -> None:
    @ray.remote
    class Some:
        def method(self) -> int:
            return 1

    @ray.remote
    def items() -> Iterator[int]:
        yield 1

    one, two = large.options(num_returns=2).remote(1), ray.put(1)
    refs = [*one, two, Some.remote().method.remote(), next(items.remote())]
    ray.wait(refs[2:], num_returns=3, timeout=120)
    here = f"{__file__}:"
    assert all(ref.call_site().startswith(here) for ref in refs)
    assert all("notes_its_site" in ref.call_site() for ref in refs)
    listed = {row.object_id: row.call_site for row in list_objects()}
    assert listed[two.hex()] == two.call_site()
