"""Being woken when a control group's memory passes a mark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog.machine import MemoryGroup, Reading
from sundog.node.tripwire import Tripwire
from tests.node.fakes import FakeLoop


class World:
    """A tripwire, and how often it was tripped."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.trips = 0
        loop: Any = self.loop
        self.wire = Tripwire(loop, self._tripped)

    def _tripped(self) -> None:
        self.trips += 1


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.wire.close()


@pytest.fixture
def group(tmp_path: Path) -> MemoryGroup:
    (tmp_path / "memory.usage_in_bytes").write_text("0")
    (tmp_path / "cgroup.event_control").write_text("")
    return MemoryGroup(str(tmp_path), 1)


def test_the_kernel_is_asked_to_tell_when_the_mark_is_passed(world: World, group: MemoryGroup) -> None:
    assert world.wire.set(group, 5000)
    event, usage, mark = Path(group.path, "cgroup.event_control").read_text().split()
    assert mark == "5000" and int(event) in world.loop.watched and os.fstat(int(usage))
    os.eventfd_write(int(event), 1)
    world.loop.watched[int(event)]()
    assert world.trips == 1
    world.loop.watched[int(event)]()  # nothing to read: it is no error
    assert world.trips == 2


def test_the_same_mark_is_not_set_twice_and_another_takes_its_place(world: World, group: MemoryGroup) -> None:
    world.wire.set(group, 5000)
    [first] = world.loop.watched
    world.wire.set(group, 5000)
    assert list(world.loop.watched) == [first]
    world.wire.set(group, 6000)
    assert len(world.loop.watched) == 1
    assert Path(group.path, "cgroup.event_control").read_text().endswith(" 6000")


def test_a_group_of_version_two_or_one_that_refuses_is_left_alone(world: World, tmp_path: Path) -> None:
    assert not world.wire.set(MemoryGroup(str(tmp_path), 2), 5000)
    refusing = MemoryGroup(str(tmp_path / "gone"), 1)
    assert not world.wire.set(refusing, 5000)
    (tmp_path / "gone").mkdir()
    assert not world.wire.set(refusing, 5000)  # it is not asked again
    assert world.loop.watched == {}


def test_only_the_group_of_the_reading_is_watched(world: World, group: MemoryGroup) -> None:
    world.wire.arm([group], Reading(1, 2, f"control group {group.path}"), 5000)
    assert len(world.loop.watched) == 1
    world.wire.arm([group], Reading(1, 2, "this machine"), 5000)
    assert world.loop.watched == {}
