"""Files of dead processes: read first, then kept by number, by bytes and by how interesting they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sundog.config import Config
from sundog.node import remains
from sundog.node.remains import Remains
from sundog.node.rows import Process


class FakeLogs:
    """Follows the output of the processes that are `unread`."""

    def __init__(self, unread: set[bytes]) -> None:
        self.unread = unread

    def follows(self, process_id: bytes) -> bool:
        return process_id in self.unread


class FakeRecords:
    """Rings that are in the segments already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.forgotten: list[int] = []

    def ring(self, process_id: bytes) -> str:
        return str(self.folder / f"{process_id.hex()}.ring")

    def reads(self, _process_id: bytes) -> bool:
        return False

    def forget(self, process_id: bytes) -> None:
        self.forgotten.append(int.from_bytes(process_id, "big"))


class FakeNode:
    """What `Remains` sees of a node."""

    def __init__(self, folder: Path, files: int, total_bytes: int) -> None:
        self.folder = folder
        self.session = {"path": str(folder)}
        self.clock = 100.0
        self.config = Config(dead_process_files=files, dead_process_bytes=total_bytes)
        self.unread: set[bytes] = set()
        self.logs = FakeLogs(self.unread)
        self.records = FakeRecords(folder)
        self.forgotten = self.records.forgotten

    def now(self) -> float:
        return self.clock


class Dead:
    """Lets processes die that leave files of `size` bytes each."""

    def __init__(self, folder: Path, files: int = 3, total_bytes: int = 1 << 30) -> None:
        self.node = FakeNode(folder, files, total_bytes)
        fake: Any = self.node
        self.remains = Remains(fake)

    def die(self, number: int, *, failed: bool = False, size: int = 10, rotated: int = 0) -> bytes:
        process_id = number.to_bytes(8, "big")
        out, err = (str(self.node.folder / f"worker-{process_id.hex()}.{end}") for end in ("out", "err"))
        ring = self.node.records.ring(process_id)
        parts = [f"{out}.{part}" for part in range(1, rotated + 1)]
        for path in (ring, f"{ring}.names", out, err, *parts):
            Path(path).write_bytes(bytes(size))
        process = Process(process_id, "worker", None, b"")  # type: ignore[arg-type]
        process.out_path, process.err_path = out, err
        self.remains.add(process, failed=failed)
        return process_id

    def later(self) -> list[int]:
        """Whose files are there, a while later."""
        self.node.clock += 100.0
        self.remains.tick()
        assert not list(self.node.folder.glob("*.ring*")) or len(self.remains._new)
        return sorted(int(path.name[7:].split(".")[0], 16) for path in self.node.folder.glob("worker-*.out"))


def test_the_newest_stay_and_of_the_others_nothing_is_left(tmp_path: Path) -> None:
    dead = Dead(tmp_path)
    for number in range(1, 8):
        dead.die(number, rotated=number % 3)
    assert dead.later() == [5, 6, 7]
    assert dead.node.forgotten == [1, 2, 3, 4, 5, 6, 7]  # their rings are in the segments
    assert len(list(tmp_path.iterdir())) == 3 * 2 + sum(number % 3 for number in (5, 6, 7))


def test_those_that_failed_are_counted_by_themselves(tmp_path: Path) -> None:
    dead = Dead(tmp_path)
    for number in range(1, 11):
        dead.die(number, failed=number <= 3)
    assert dead.later() == [1, 2, 3, 8, 9, 10]


def test_by_bytes_those_that_ended_as_they_should_go_first(tmp_path: Path) -> None:
    dead = Dead(tmp_path, files=100, total_bytes=6 * 2 * 4096)
    for number in range(1, 9):
        dead.die(number, failed=number <= 4, size=4096)
    assert dead.later() == [1, 2, 3, 4, 7, 8]
    for number in range(9, 19):
        dead.die(number, failed=True, size=4096)
    assert dead.later() == [13, 14, 15, 16, 17, 18]


def test_nothing_goes_before_it_is_read_or_soon_after_the_death(tmp_path: Path) -> None:
    dead = Dead(tmp_path, files=0)
    dead.node.unread.add(dead.die(1))
    dead.remains.tick()
    assert len(list(tmp_path.glob("*.ring"))) == 1
    assert dead.later() == [1]
    dead.node.unread.clear()
    dead.die(2)
    dead.node.clock += remains._GRACE_S - 1.0
    dead.remains.tick()
    assert sorted(dead.node.forgotten) == [1]
    assert dead.later() == []


def test_a_crowd_of_dead_is_dealt_with_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remains, "_PORTION", 4)
    dead = Dead(tmp_path, files=1)
    for number in range(1, 11):
        dead.die(number)
    assert [len(dead.later()) for _ in range(4)] == [7, 3, 1, 1]
