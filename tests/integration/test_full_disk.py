"""A disk without a free byte below the session's folder: the program goes on, the records give way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration import small_disks

WORK = """
disk = os.environ["SUNDOG_temp_dir"]
@ray.remote
def square(number):
    print("square", number)
    return number * number
@ray.remote
class Sum:
    def __init__(self):
        print("a new sum")
        self.total = 0
    def add(self, number):
        print("add", number)
        self.total += number
        return self.total
def work():
    assert ray.get([square.remote(n) for n in range(1500)]) == [n * n for n in range(1500)]
    sums = [Sum.remote() for _ in range(3)]
    for each in sums:
        assert ray.get([each.add.remote(1) for _ in range(100)])[-1] == 100
"""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    small_disks.needs_mounts()
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def play(scene: str, disk: Path) -> None:
    """Play a scene on a disk of two megabytes; the scene says "right" at its end."""
    ended = small_disks.run(WORK + scene, {disk: "2m"}, SUNDOG_temp_dir=str(disk))
    assert ended.returncode == 0 and small_disks.says_right(ended.stdout), ended.stderr


def test_a_program_on_a_disk_that_fills_up_goes_on_and_so_do_its_records_when_there_is_room(
    disk: Path,
) -> None:
    play(
        """
ray.init(num_cpus=3)
until(lambda: (fill(disk), free_bytes(disk) == 0)[1], "the disk is full")
kept = Sum.remote()  # a process that ends on a full disk cannot leave a count of what it did not record
ray.get([kept.add.remote(1) for _ in range(3000)])
work()
from sundog.observe import records, index
[session] = [f"{disk}/{name}" for name in os.listdir(disk) if name.startswith("session_2")]
make_room(disk)
def recorded():
    marker = f"square again {time.monotonic()}"
    ray.get(square.options(name=marker).remote(2))
    return any(row.name == marker for row in records.read_session(session).tasks)
until(recorded, "a task is recorded again")
def logged():
    ray.get(square.remote(77))
    names = os.listdir(f"{session}/logs")
    return any("square 77" in open(f"{session}/logs/{name}").read() for name in names)
until(logged, "a line is printed again")
until(lambda: index.session_usage(session)["missed"] > 0, "what was not recorded is counted")
work()
ray.shutdown()
assert records.read_session(session).dropped > 0
print("right")
""",
        disk,
    )


def test_a_session_is_made_on_a_disk_that_is_full_already_and_can_be_joined_when_there_is_room(
    disk: Path,
) -> None:
    play(
        """
fill(disk)
ray.init(num_cpus=2)
work()
[session] = [f"{disk}/{name}" for name in os.listdir(disk) if name.startswith("session_2")]
assert not os.path.exists(f"{session}/session.json")
make_room(disk)
until(lambda: os.path.exists(f"{session}/session.json"), "others can join")
work()
print("right")
""",
        disk,
    )


def test_a_session_that_others_are_to_join_is_refused_in_one_sentence_when_the_disk_is_full(
    disk: Path,
) -> None:
    ended = small_disks.run(
        WORK
        + """
from sundog.engines import sessions
fill(disk)
try:
    sessions.start_head(num_cpus=1)
except ray.exceptions.RaySystemError as error:
    print(error)
assert os.listdir(disk) == ["filler"]
make_room(disk)
info = sessions.start_head(num_cpus=1)
sessions.stop_session(info)
print("right")
""",
        {disk: "2m"},
        SUNDOG_temp_dir=str(disk),
    )
    told, *rest = ended.stdout.splitlines()
    assert ended.returncode == 0 and rest == ["right"], ended.stderr
    assert "there is no room for its folder" in told and "df -h" in told


def test_a_full_disk_that_writes_each_page_to_a_new_place_ends_no_process(disk: Path, tmp_path: Path) -> None:
    """On btrfs, room that was reserved is used once: what is written there again needs more, or is a SIGBUS."""
    small_disks.needs_btrfs()
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True)
    ended = small_disks.run(
        WORK
        + """
ray.init(num_cpus=2)
work()
os.sync()  # pages that are on the disk are written anew
for _ in range(3):
    fill(disk)  # some is free to the last, which only the file system itself may use
    work()
    os.sync()
os.truncate(disk + "/filler", 0)
work()
ray.shutdown()
print("right")
""",
        {disk: str(image)},
        SUNDOG_temp_dir=str(disk),
    )
    assert ended.returncode == 0 and small_disks.says_right(ended.stdout), ended.stderr
