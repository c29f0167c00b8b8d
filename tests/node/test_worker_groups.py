"""Which worker is in a control group of its own, as far as the kernel was asked in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from sundog.node import worker_groups
from sundog.node.causes import OomCounters
from sundog.node.worker_groups import WorkerGroups
from sundog.system.oom_kills import VMSTAT


class Machine:
    """Processes and their control groups, in folders."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setattr(worker_groups, "own_counters", self._counters)
        self.move("self", "home")
        self.kills("home", 0)
        self.counters = OomCounters([str(folder / "home")], machine=str(folder / "vmstat"))
        self.groups = WorkerGroups(self.counters, str(folder))

    def _counters(self, membership: str) -> list[str]:
        found = self.folder / Path(membership).read_text()
        return [str(found) if found.exists() else VMSTAT]

    def move(self, pid: int | str, group: str, flags: int = 0x400000) -> None:
        (self.folder / str(pid)).mkdir(exist_ok=True)
        (self.folder / str(pid) / "cgroup").write_text(group)
        (self.folder / str(pid) / "stat").write_text(f"{pid} (a) name) R 1 1 1 0 -1 {flags} 0 0")

    def kills(self, group: str, count: int) -> str:
        (self.folder / group).write_text(f"oom_kill {count}\n")
        return str(self.folder / group)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_worker_in_the_nodes_group_has_none_of_its_own(kernel: Machine) -> None:
    kernel.move(7, "home")
    kernel.groups.look([7, 8])
    assert kernel.groups.counter_of(7) == kernel.groups.counter_of(8) == ""
    assert not kernel.groups.counters()


def test_a_process_that_ends_keeps_the_group_that_it_was_in(kernel: Machine) -> None:
    own = kernel.kills("own", 0)
    kernel.kills("root", 0)
    kernel.move(7, "own")
    kernel.move(8, "home")
    kernel.groups.look([7, 8])
    for pid in (7, 8):  # the kernel says so of each process that ends
        kernel.move(pid, "root", flags=0x400004)
    kernel.groups.look([7, 8])
    assert kernel.groups.counter_of(7) == own and kernel.groups.counter_of(8) == ""
    (kernel.folder / "8" / "stat").unlink()  # it is gone
    kernel.groups.look([7, 8])
    assert kernel.groups.counter_of(8) == "" and set(kernel.groups.counters()) == {own}


def test_the_group_of_a_worker_is_watched_while_a_worker_is_in_it(kernel: Machine) -> None:
    own = kernel.kills("own", 3)
    kernel.move(7, "own")
    kernel.move(8, "own")
    kernel.groups.look([7, 8])
    assert kernel.groups.counter_of(7) == kernel.groups.counter_of(8) == own
    assert kernel.counters.is_watched(own) and set(kernel.groups.counters()) == {own}
    kernel.groups.look([8])
    assert kernel.counters.is_watched(own)
    kernel.move(8, "home")
    kernel.groups.look([8])
    assert not kernel.counters.is_watched(own) and kernel.groups.counter_of(8) == ""


def test_a_counter_that_another_part_watches_is_left_to_it(kernel: Machine) -> None:
    job = kernel.kills("job", 0)
    kernel.counters.watch(job)
    kernel.move(7, "job")
    kernel.groups.look_at(7)
    assert kernel.groups.counter_of(7) == job and not kernel.groups.counters()
    kernel.groups.look([])
    assert kernel.counters.is_watched(job)


def test_of_many_workers_some_are_looked_at_each_time(
    kernel: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_groups, "_LOOKS_MAX", 2)
    kernel.kills("own", 0)
    for pid in range(5):
        kernel.move(pid, "own")
    seen = []
    for _ in range(3):
        kernel.groups.look(range(5))
        seen.append(sum(bool(kernel.groups.counter_of(pid)) for pid in range(5)))
    assert seen == [2, 4, 5]


def test_a_group_without_a_counter_says_nothing(kernel: Machine) -> None:
    kernel.move(7, "nowhere")
    kernel.groups.look([7])
    assert kernel.groups.counter_of(7) == ""
