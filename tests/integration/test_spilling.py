"""The store's limit: beyond it objects go to disk and come back, nothing is wrong, and nothing is left."""

from __future__ import annotations

import gc
import json
import mmap
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sundog
from sundog.owner import context
from sundog.wire.requests import Status
from tests.integration.gates import await_true

Start = Callable[..., ModuleType]
MB = 1 << 20
LIMIT = 24 * MB


def in_memory() -> int:
    """Bytes of the session in shared memory."""
    total = 0
    for folder, _, files in os.walk(context.facts.session["shm_root"]):
        for name in files:
            try:
                total += os.stat(f"{folder}/{name}").st_blocks * 512
            except OSError:
                continue
    return total


def mapped() -> int:
    """Bytes of shared memory that this process has mapped: also of files that have no name any more."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssShmem"))


def spill_folder() -> Path:
    return Path(context.facts.session["spill_folders"][0])


def spilled_files() -> list[Path]:
    folder = spill_folder()
    return [each for each in folder.iterdir() if each.is_file()] if folder.is_dir() else []


def figures() -> dict[str, int]:
    engine: Any = sundog.engines.current()
    found: dict[str, int] = engine.owner.control.request(Status())["store"]
    return found


def block(number: int, size: int = MB) -> np.ndarray[Any, Any]:
    """An array that only `number` has."""
    return np.random.default_rng(number).integers(0, 255, size, np.uint8)


def test_three_times_the_limit_is_read_back_right_in_any_order_within_the_limit(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=LIMIT)
    dice = random.Random(7)
    sizes = [dice.choice((100_000, 300_000, MB, 3 * MB)) for _ in range(200)]
    while sum(sizes) < 3 * LIMIT:
        sizes.append(MB)
    before, peak = mapped(), 0
    refs = []
    for number, size in enumerate(sizes):
        refs.append(ray.put(block(number, size)))
        if number % 4 == 0:
            peak = max(peak, in_memory(), mapped() - before)
    order = list(range(len(refs)))
    dice.shuffle(order)
    for turn, number in enumerate(order):
        assert np.array_equal(ray.get(refs[number]), block(number, sizes[number]))
        if turn % 4 == 0:
            peak = max(peak, in_memory(), mapped() - before)
    assert peak <= 1.1 * LIMIT
    found = figures()
    assert found["spilled_bytes_total"] >= LIMIT and found["restored_bytes_total"] >= LIMIT
    assert len(spilled_files()) < len(refs) / 2  # small ones share a file
    del refs
    gc.collect()
    await_true(lambda: not spilled_files(), "spill files of freed objects are removed")


def test_within_the_limit_nothing_goes_to_disk(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=LIMIT)
    for _ in range(5):  # more than the limit in all, but never at a time
        refs = [ray.put(block(number)) for number in range(16)]
        assert np.array_equal(ray.get(refs[3]), block(3))
        del refs
        gc.collect()
    kept = [ray.put(np.zeros(size, np.uint8)) for size in (200_000, 5 * MB, 2 * MB, 300_000)]
    assert len(kept) == 4 and figures()["spilled_bytes_total"] == 0
    assert not spilled_files()


def test_results_and_arguments_of_tasks_are_spilled_and_come_back_in_workers(ray_session: Start) -> None:
    ray = ray_session(num_cpus=2, object_store_memory=LIMIT)

    @ray.remote
    def make(number: int) -> Any:
        return np.random.default_rng(number).integers(0, 255, MB, np.uint8)

    @ray.remote
    def total(array: Any) -> int:
        return int(array.sum())

    refs = [make.remote(number) for number in range(60)]
    sums = ray.get([total.remote(ref) for ref in refs], timeout=60)
    assert sums == [int(block(number).sum()) for number in range(60)]
    assert figures()["spilled_bytes_total"] > 0
    assert np.array_equal(ray.get(refs[0]), block(0))


def test_what_is_looked_at_stays_whole_while_everything_else_goes(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=LIMIT)
    refs = [ray.put(block(number)) for number in range(12)]
    views = [ray.get(ref) for ref in refs]
    more = [ray.put(block(100 + number)) for number in range(40)]
    for number, view in enumerate(views):
        assert np.array_equal(view, block(number))
    assert np.array_equal(ray.get(more[0]), block(100))
    assert in_memory() <= 1.1 * LIMIT


def test_a_store_full_of_objects_in_use_sends_the_next_to_disk(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=8 * MB)
    refs = [ray.put(block(number)) for number in range(8)]
    views = [ray.get(ref) for ref in refs]
    late = [ray.put(block(50 + number)) for number in range(6)]
    for number, ref in enumerate(late):
        assert np.array_equal(ray.get(ref), block(50 + number))
    assert all(np.array_equal(view, block(number)) for number, view in enumerate(views))
    assert in_memory() <= 1.1 * 8 * MB
    too_large = ray.put(block(9, 20 * MB))  # larger than the whole store
    assert np.array_equal(ray.get(too_large), block(9, 20 * MB))
    del refs, views, late, too_large, ref
    gc.collect()
    await_true(lambda: not spilled_files(), "what went straight to disk is removed too")


def test_an_object_whose_spill_file_was_removed_is_lost_and_says_so(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=LIMIT)
    refs = [ray.put(block(number)) for number in range(60)]
    assert spilled_files()
    for path in spilled_files():
        path.unlink()
    with pytest.raises(sundog.exceptions.ObjectLostError, match="removed"):
        ray.get(refs[0])
    assert np.array_equal(ray.get(refs[59]), block(59))


def test_a_spilled_result_whose_spill_file_was_removed_is_computed_again(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=8 * MB)

    @ray.remote
    def make(number: int) -> Any:
        return block(number)

    @ray.remote
    def total(values: Any) -> int:
        return int(values.sum())

    made = [make.remote(number) for number in range(4)]
    ray.wait(made, num_returns=4)
    puts = [ray.put(block(number)) for number in range(4, 20)]
    await_true(lambda: figures()["spilled_objects"] >= 8, "the results, which are the oldest, are spilled")
    for path in spilled_files():
        path.unlink()
    # Found by a worker that loads an argument, and by a get.
    assert ray.get(total.remote(made[0]), timeout=120) == int(block(0).sum())
    for number in range(4):
        assert np.array_equal(ray.get(made[number], timeout=120), block(number))
    owner = sundog.engines.current().owner  # type: ignore[union-attr]
    assert owner.lineage.rebuilt == 4
    with pytest.raises(sundog.exceptions.ObjectLostError, match="from put"):
        ray.get(puts[0], timeout=120)
    assert in_memory() <= 1.1 * 8 * MB
    del made, puts, number
    gc.collect()
    await_true(lambda: not spilled_files() and not figures()["spilled_objects"], "nothing is left on disk")


def test_what_a_dead_process_had_spilled_is_removed(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=8 * MB)

    @ray.remote
    class Keeper:
        def fill(self) -> int:
            self.refs = [sundog.put(np.full(MB, number, np.uint8)) for number in range(20)]
            return int(sundog.get(self.refs[0])[5])

        def pid(self) -> int:
            return os.getpid()

    keeper = Keeper.remote()
    assert ray.get(keeper.fill.remote()) == 0
    assert spilled_files()
    os.kill(ray.get(keeper.pid.remote()), signal.SIGKILL)
    await_true(lambda: not spilled_files(), "its spill files are removed")
    await_true(lambda: in_memory() == 0, "its segments are removed")


def test_a_stopped_process_does_not_stop_the_spilling_of_others(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=LIMIT)

    @ray.remote
    class Holder:
        def hold(self, ref: list[Any]) -> int:
            self.view = sundog.get(ref[0])
            return os.getpid()

    held = ray.put(block(0))
    holder = Holder.remote()
    pid = ray.get(holder.hold.remote([held]))
    os.kill(pid, signal.SIGSTOP)
    try:
        refs = [ray.put(block(1 + number)) for number in range(50)]
        assert np.array_equal(ray.get(refs[0]), block(1))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ray.get(holder.hold.remote([refs[10]])) == pid
    assert np.array_equal(ray.get(held), block(0))


def test_several_threads_put_and_get_beyond_the_limit(ray_session: Start) -> None:
    from concurrent.futures import ThreadPoolExecutor

    ray = ray_session(num_cpus=1, object_store_memory=LIMIT)

    def work(thread: int) -> bool:
        refs = [ray.put(block(thread * 100 + number)) for number in range(12)]
        return all(np.array_equal(ray.get(ref), block(thread * 100 + n)) for n, ref in enumerate(refs))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert in_memory() <= 1.1 * LIMIT


def test_with_neither_spilling_nor_falling_back_the_store_is_full(ray_session: Start) -> None:
    ray = ray_session(
        num_cpus=1,
        object_store_memory=8 * MB,
        _system_config={"automatic_object_spilling_enabled": False, "store_fallback_to_disk": False},
    )
    refs = [ray.put(block(number)) for number in range(7)]
    with pytest.raises(sundog.exceptions.ObjectStoreFullError, match="store_fallback_to_disk") as caught:
        ray.put(block(9, 4 * MB))
    assert caught.value.limit_bytes == 8 * MB
    assert np.array_equal(ray.get(refs[0]), block(0))
    del refs
    gc.collect()
    ray.put(block(9, 4 * MB))


def test_an_object_larger_than_memory_and_disk_raises_before_it_fills_them(ray_session: Start) -> None:
    ray = ray_session(num_cpus=1, object_store_memory=LIMIT)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
    with mmap.mmap(-1, 1 << 45, flags=flags) as nothing:  # 32 TiB of addresses, not of memory
        array = np.frombuffer(nothing, np.uint8)
        with pytest.raises(sundog.exceptions.OutOfDiskError) as caught:
            ray.put(array)
        del array
        needed = caught.value.needed_bytes
        del caught
        gc.collect()
    assert needed == 1 << 45
    assert not spilled_files()


def test_a_disk_that_fills_up_is_warned_of_once(
    ray_session: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    ray_session(num_cpus=1, _system_config={"local_fs_capacity_threshold": 1e-9})
    said: list[str] = []

    def heard() -> bool:
        said.append(capfd.readouterr().err)
        return "full" in "".join(said)

    await_true(heard, "a warning about the disk")
    assert "OutOfDiskError" in "".join(said)


def test_objects_are_spilled_to_the_folder_of_choice_and_it_is_emptied(
    ray_session: Start, leak_check: Path
) -> None:
    elsewhere, both = leak_check / "elsewhere", [str(leak_check / "one"), str(leak_check / "two")]
    config = json.dumps({"type": "filesystem", "params": {"directory_path": both}})
    for options, folders in (
        ({"object_spilling_directory": str(elsewhere)}, [elsewhere]),
        ({"_system_config": {"object_spilling_config": config}}, [Path(each) for each in both]),
    ):
        ray = ray_session(num_cpus=1, object_store_memory=8 * MB, **options)
        refs = [ray.put(block(number)) for number in range(24)]
        for folder in folders:
            assert list(folder.glob("*/spilled-*"))
        assert np.array_equal(ray.get(refs[0]), block(0))
        del refs
        ray.shutdown()
        for folder in folders:
            assert not list(folder.iterdir())


def test_a_killed_node_leaves_no_spilled_object(ray_session: Start, leak_check: Path) -> None:
    ray = ray_session(
        num_cpus=1, object_store_memory=8 * MB, object_spilling_directory=str(leak_check / "there")
    )
    refs = [ray.put(block(number)) for number in range(24)]
    assert list((leak_check / "there").glob("*/spilled-*"))
    os.kill(context.facts.session["node_pid"], signal.SIGKILL)
    await_true(lambda: not list((leak_check / "there").iterdir()), "the folder is emptied")
    with pytest.raises(sundog.exceptions.LocalRayletDiedError):
        ray.get(refs[0])
    ray.shutdown()


def test_objects_are_spilled_to_s3_and_come_back(ray_session: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "moto's server stands in for S3: pip install 's3fs' 'moto[server]'"
    server = pytest.importorskip("moto.server", reason=reason)
    boto3 = pytest.importorskip("boto3", reason=reason)
    pytest.importorskip("s3fs", reason=reason)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    moto = server.ThreadedMotoServer(port=0, verbose=False)
    moto.start()
    try:
        host, port = moto.get_host_and_port()
        url = f"http://{host}:{port}"
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket="spill")

        def kept() -> list[Any]:
            return list(client.list_objects_v2(Bucket="spill").get("Contents", []))

        params = {"uri": "s3://spill/objects", "storage_options": {"endpoint_url": url}}
        ray = ray_session(
            num_cpus=1,
            object_store_memory=8 * MB,
            _system_config={"object_spilling_config": json.dumps({"type": "smart_open", "params": params})},
        )
        refs = [ray.put(block(number)) for number in range(24)]
        assert figures()["spilled_bytes_total"] > 0
        assert all(np.array_equal(ray.get(ref), block(number)) for number, ref in enumerate(refs))
        assert kept()
        ray.shutdown()
        assert not kept()
        client.close()
    finally:
        moto.stop()
