"""Hard caps: who is ended for passing its own request, and what a control group adds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sundog import machine
from sundog.machine import MemoryGroup
from sundog.node import caps as module
from sundog.node.caps import Caps, Fence
from sundog.state.memory import NEVER
from tests.node.fakes import FakeNode, FakeProcess

PID = 5_000_001
WORKER = b"worker01"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = FakeNode(shm_root="/dev/shm/sundog-x")
    made.join(FakeProcess(WORKER, kind="worker", pid=PID))
    monkeypatch.setattr(machine, "own_bytes", made.memory.own_bytes)
    return made


def test_a_worker_within_its_request_goes_on_and_one_beyond_it_is_ended_with_the_arithmetic(
    node: Any,
) -> None:
    caps = Caps(node, [])
    caps.granted(1, WORKER, 1000)
    node.memory.own[PID] = 1000
    node.loop.fire()
    assert node.memory.killed == [] and len(node.loop.timers) == 1
    node.memory.own[PID] = 1001
    node.loop.fire()
    [(worker, reason, facts)] = node.memory.killed
    assert (worker, reason) == (WORKER, module.REASON)
    assert (facts["own_bytes"], facts["cap_bytes"], facts["retry"]) == (1001, 1000, NEVER)


def test_what_a_worker_still_held_of_earlier_tasks_does_not_count(node: Any) -> None:
    node.memory.own = {0: 300, PID: 800}  # the zygote's share is in every worker
    caps = Caps(node, [])
    caps.granted(1, WORKER, 1000)
    node.memory.own[PID] = 1500
    node.loop.fire()
    assert node.memory.killed == []
    node.memory.own[PID] = 1501
    node.loop.fire()
    assert len(node.memory.killed) == 1


def test_a_worker_whose_lease_was_given_back_is_watched_no_longer(node: Any) -> None:
    caps = Caps(node, [])
    caps.granted(1, WORKER, 1000)
    caps.released(1)
    node.memory.own[PID] = 9999
    node.loop.fire()
    assert node.memory.killed == [] and node.loop.timers == []
    caps.released(1)
    caps.ended(WORKER)


def test_without_a_cap_or_a_process_nothing_is_watched(node: Any) -> None:
    caps = Caps(node, [])
    caps.granted(1, WORKER, 0)
    caps.granted(2, b"gone", 1000)
    assert node.loop.timers == []


def test_a_worker_that_is_ending_is_not_ended_again(node: Any) -> None:
    caps = Caps(node, [])
    caps.granted(1, WORKER, 1000)
    node.memory.own[PID], node.processes[WORKER].state = 2000, "stopping"
    node.loop.fire()
    assert node.memory.killed == []


# ---------------------------------------------------------------------- control groups, which are folders here
class Cgroup:
    """A folder that looks like a control group of version 2: new groups in it have these files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]) -> None:
        self.folder = folder
        (folder / "cgroup.procs").write_text("")
        make = os.mkdir

        def mkdir(path: str, *args: Any) -> None:
            make(path, *args)
            for name in files:
                Path(path, name).write_text("anon 0\n" if name == "memory.stat" else "0")

        monkeypatch.setattr(os, "mkdir", mkdir)

    def group(self) -> MemoryGroup:
        return MemoryGroup(str(self.folder), 2)


def test_a_fence_holds_one_process_and_slows_it_down_before_its_limit(
    node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = Cgroup(
        tmp_path, monkeypatch, ("memory.high", "cgroup.procs", "memory.current", "memory.stat")
    ).group()
    fence = Fence.build(node, outer, PID, lambda: None)
    assert fence is not None
    made = tmp_path / f"sundog-x-{PID}"
    assert (made / "cgroup.procs").read_text() == str(PID)
    fence.tighten(10 << 20)
    assert int((made / "memory.high").read_text()) == 10 << 20
    fence.tighten(5)  # at least a step: the kernel counts in pages
    assert int((made / "memory.high").read_text()) == 1 << 20
    fence.remove()
    assert (tmp_path / "cgroup.procs").read_text() == str(PID)  # the worker is let out


def test_kills_in_the_group_of_a_capped_worker_are_counted_from_its_start(
    node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(node.workers.causes.groups, "look_at", looked.append)
    files = ("memory.high", "cgroup.procs", "memory.current", "memory.stat")
    caps = Caps(node, [Cgroup(tmp_path, monkeypatch, files).group()])
    caps.granted(1, WORKER, 1000)
    assert looked == [PID]


def test_where_no_group_can_be_made_the_node_looks_by_itself(
    node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = Cgroup(tmp_path, monkeypatch, ()).group()  # the memory controller is not enabled
    assert Fence.build(node, outer, PID, lambda: None) is None
    assert [path.name for path in tmp_path.iterdir()] == ["cgroup.procs"]
    caps = Caps(node, [outer])
    caps.granted(1, WORKER, 1000)
    assert caps._group is None and len(node.loop.timers) == 1


def test_groups_that_a_killed_node_left_are_swept(
    node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sundog-old-1").mkdir()
    (tmp_path / "another").mkdir()
    Fence.build(node, Cgroup(tmp_path, monkeypatch, ()).group(), PID, lambda: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another", "cgroup.procs"]
