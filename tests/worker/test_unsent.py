"""Segments of a task that ends before its reply are free again; those that a reply names are not."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from sundog.owner import context
from sundog.store.segments import Segments
from sundog.worker.unsent import Unsent

OWNER = b"o" * 8
FIRST, SECOND = b"1" * 16, b"2" * 16
DATA = [memoryview(bytes(1 << 16))]


class Recycling(Segments):
    """Segments that tell which of them became free."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder / "shm"), str(folder / "disk"), b"m" * 8, deque())
        self.freed: list[str] = []

    def recycle(self, name: str, size: int) -> None:
        """Note it, and keep the file as usual."""
        self.freed.append(name)
        super().recycle(name, size)


@pytest.fixture
def segments(tmp_path: Path) -> Iterator[Recycling]:
    (tmp_path / "shm").mkdir()
    made = Recycling(tmp_path)
    yield made
    made.close()


@pytest.fixture
def unsent(segments: Recycling) -> Iterator[Unsent]:
    before = context.running.set(None)
    yield Unsent(segments)
    context.running.reset(before)


def run(task_id: bytes) -> None:
    context.running.set((task_id, "task", 0, OWNER))


def test_a_task_that_fails_gives_back_what_it_wrote(unsent: Unsent, segments: Recycling) -> None:
    run(FIRST)
    unsent.write(DATA, OWNER)
    written = [name for name, _ in unsent.found]

    unsent.take_back(FIRST)

    assert segments.freed == written
    assert unsent.found == []


def test_what_a_reply_has_named_is_not_given_back(unsent: Unsent, segments: Recycling) -> None:
    run(FIRST)
    unsent.write(DATA, OWNER)
    unsent.sent()

    unsent.take_back(FIRST)

    assert segments.freed == []


def test_the_next_task_forgets_what_the_task_before_it_wrote(unsent: Unsent, segments: Recycling) -> None:
    run(FIRST)
    unsent.write(DATA, OWNER)
    run(SECOND)
    unsent.write(DATA, OWNER)
    written = [name for name, _ in unsent.found]

    unsent.take_back(SECOND)

    assert len(written) == 1
    assert segments.freed == written


def test_the_failure_of_another_task_frees_nothing(unsent: Unsent, segments: Recycling) -> None:
    run(FIRST)
    unsent.write(DATA, OWNER)

    unsent.take_back(SECOND)

    assert segments.freed == []


def test_outside_of_tasks_nothing_is_remembered(unsent: Unsent) -> None:
    unsent.write(DATA, OWNER)

    assert unsent.found == []
