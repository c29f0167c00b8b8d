"""Shared memory without a free byte: large messages arrive all the same, objects go to disk or raise a typed error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration import small_disks


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """For shared memory, and for the session's folder."""
    small_disks.needs_mounts()
    for name in ("shm", "disk"):
        (tmp_path / name).mkdir()
    return tmp_path / "shm", tmp_path / "disk"


def assert_right(program: str, folders: tuple[Path, Path], disk_size: str = "16m") -> None:
    shm, disk = folders
    ended = small_disks.run(
        f"""
import numpy as np
from sundog.exceptions import OutOfDiskError, RayTaskError
shm, disk = {str(shm)!r}, {str(disk)!r}
{program}
print("right")
""",
        {shm: "16m", disk: disk_size},
        SUNDOG_shm_dir=str(shm),
        SUNDOG_temp_dir=str(disk),
    )
    assert ended.returncode == 0 and small_disks.says_right(ended.stdout), ended.stderr


MESSAGES = """
ray.init(num_cpus=2)
load = os.urandom(400_000)
def make(number):
    @ray.remote
    def function(fail):
        if fail:
            raise ValueError("x" * 300_000)
        return len(load) + number
    return function
@ray.remote
class Actor:
    load = load
    def call(self, fail):
        if fail:
            raise ValueError("x" * 300_000)
        return len(self.load)
    def pass_on(self, function):
        return ray.get(function.remote(False))
def exchange(number, objects=True):
    function = make(number)  # a new function travels to each worker with its code
    assert ray.get([function.remote(False) for _ in range(20)]) == [400_000 + number] * 20
    actor = Actor.remote()
    assert ray.get(actor.call.remote(False)) == 400_000
    if objects:
        assert ray.get(actor.pass_on.remote(function)) == 400_000 + number
    for ref in (function.remote(True), actor.call.remote(True)):
        try:
            ray.get(ref)
        except ValueError as error:
            assert str(error.cause) == "x" * 300_000
        else:
            raise SystemExit("no error")
fill(shm)
exchange(1)
exchange(2)
"""


@pytest.mark.parametrize("disk", ["a disk with room", "a full disk"])
def test_messages_larger_than_a_packet_arrive_without_room_in_shared_memory(
    folders: tuple[Path, Path], disk: str
) -> None:
    full = disk == "a full disk"
    more = f"fill(disk) if {full} else None\nexchange(3, {not full})\nmake_room(shm)\nexchange(4)\n"
    assert_right(MESSAGES + more, folders)


def test_a_session_is_made_although_shared_memory_is_full(folders: tuple[Path, Path]) -> None:
    assert_right(
        "fill(shm)\n" + MESSAGES.replace("fill(shm)\n", "") + "make_room(shm)\nexchange(3)\n", folders
    )


def test_an_object_goes_to_disk_when_shared_memory_is_full_though_the_store_is_not(
    folders: tuple[Path, Path],
) -> None:
    assert_right(
        """
ray.init(num_cpus=1)
@ray.remote
def make(number):
    return np.full(200_000, number)
ray.get(make.remote(0))
fill(shm)
refs = [ray.put(np.full(200_000, 7)), make.remote(8)]
assert [int(ray.get(ref).sum()) for ref in refs] == [1_400_000, 1_600_000]
fill(disk)
for attempt in (lambda: ray.put(np.full(200_000, 7)), lambda: ray.get(make.remote(8))):
    try:
        attempt()
    except OutOfDiskError:
        pass
    else:
        raise SystemExit("no error")
make_room(shm)
assert int(ray.get(ray.put(np.full(200_000, 7))).sum()) == 1_400_000
assert int(ray.get(make.remote(9)).sum()) == 1_800_000
""",
        folders,
    )


def test_a_used_segment_that_is_to_become_larger_is_not_written_beyond_the_room_there_is(
    folders: tuple[Path, Path],
) -> None:
    """The first object leaves a segment of 1.5 MiB of which 1.1 MB are there: the rest would be a SIGBUS."""
    assert_right(
        """
ray.init(num_cpus=1)
for _ in range(3):
    ref = ray.put(np.zeros(1_100_000, "u1"))
    del ref
    until(lambda: any(name.startswith("free-") for root in os.listdir(shm) for name in os.listdir(f"{shm}/{root}")),
          "a segment is free")
    fill(shm)
    ref = ray.put(np.full(1_500_000, 3, "u1"))
    assert int(ray.get(ref).sum()) == 4_500_000
    del ref
    make_room(shm)
""",
        folders,
    )
