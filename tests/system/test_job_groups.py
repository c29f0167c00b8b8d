"""The control group of a job: made, limited by the kernel, removed; and the sentence where there can be none."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sundog import machine
from sundog.system import job_groups
from sundog.system.oom_kills import read_count
from tests.integration.gates import await_true

MB = 1 << 20


def test_the_kernel_ends_what_passes_the_limit_of_its_group() -> None:
    group, why = job_groups.build(f"/nowhere/session-{os.getpid()}", "train", 32 * MB, 0)
    if group is None:
        pytest.skip(why)
    try:
        before = read_count(group.counter) or 0
        child = subprocess.Popen(
            [sys.executable, "-c", "input(); x = [b'1' * (1 << 20) for _ in range(400)]; input()"],
            stdin=subprocess.PIPE,
        )
        assert child.stdin is not None and group.add(child.pid)
        assert not group.remove(), "there is a process in it"
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.wait() == -9
        child.stdin.close()
        await_true(lambda: (read_count(group.counter) or 0) > before, "the kernel to count its kill")
        again, _ = job_groups.build(f"/nowhere/session-{os.getpid()}", "train", 64 * MB, MB)
        assert again is not None and again.path == group.path, "the same group, for node and supervisor"
        assert (again.group.limit_bytes() or 0) == 64 * MB + MB + 64 * MB
    finally:
        await_true(group.remove, "the group to be empty")
    assert group.remove() and not os.path.exists(group.path)


def test_where_no_group_can_be_made_one_sentence_says_why(tmp_path: Path) -> None:
    assert job_groups.build("/s/session", "a", MB, 0, around=[])[1] == (
        "no control group can be made (this process is in no memory control group), so the memory monitor alone "
        "watches its processes"
    )
    for version, told in ((1, "No such file or directory"), (2, "cgroup.subtree_control has no memory")):
        # A folder that is not the kernel's has none of its files.
        group, why = job_groups.build(
            "/s/session", "a", MB, 0, around=[machine.MemoryGroup(str(tmp_path), version)]
        )
        assert group is None and told in why
        assert list(tmp_path.iterdir()) == []


def test_no_group_is_made_outside_of_a_limit(tmp_path: Path) -> None:
    inner, outer = (
        machine.MemoryGroup(str(tmp_path / "inner"), 2),
        machine.MemoryGroup(str(tmp_path / "outer"), 2),
    )
    for group in (inner, outer):
        Path(group.path).mkdir()
    assert [each.path for each in job_groups._places([inner, outer])] == [inner.path, outer.path]
    (tmp_path / "inner/memory.max").write_text("1000000\n")
    assert [each.path for each in job_groups._places([inner, outer])] == [inner.path]


class Tree:
    """Control groups of version 2 in a folder: what the kernel does when one is made, written to or removed.

    A group's children have files of memory if its cgroup.subtree_control names memory. That cannot be switched on in a
    group that has processes. A group with processes cannot be removed; an empty one vanishes with its files.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._write_bytes, self._mkdir, self._rmdir = os.write, os.mkdir, os.rmdir
        for name in ("mkdir", "rmdir", "write"):
            monkeypatch.setattr(f"sundog.system.job_groups.os.{name}", getattr(self, name))

    def _is_ours(self, path: str) -> bool:
        return path.startswith(f"{self.root}/")

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._mkdir(path, mode)
        if self._is_ours(path):
            files = {"cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.controllers": "memory"}
            above = Path(path).parent / "cgroup.subtree_control"
            if "memory" in (above.read_text().split() if above.exists() else ["memory"]):
                files |= {
                    "memory.max": "max\n",
                    "memory.current": "0\n",
                    "memory.events": "low 0\noom 0\noom_kill 0\n",
                }
            for name, text in files.items():
                (Path(path) / name).write_text(text)

    def rmdir(self, path: str) -> None:
        if self._is_ours(path) and os.path.isdir(path):
            if (Path(path) / "cgroup.procs").read_text():
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            for file in Path(path).iterdir():
                file.unlink()
        self._rmdir(path)

    def write(self, fd: int, data: bytes) -> int:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if self._is_ours(path) and path.endswith("cgroup.subtree_control"):
            if (Path(path).parent / "cgroup.procs").read_text():
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            Path(path).write_text(data.decode().removeprefix("+"))
            return len(data)
        return self._write_bytes(fd, data)

    def make(self, name: str, processes: str = "") -> machine.MemoryGroup:
        self.mkdir(str(self.root / name))
        (self.root / name / "cgroup.procs").write_text(processes)
        return machine.MemoryGroup(str(self.root / name), 2)


def test_with_version_2_a_group_is_made_where_memory_can_be_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path, monkeypatch)
    slice_ = tree.make("app.slice")
    scope = tree.make("app.slice/run.scope", processes="12\n")  # here we are: its children can have no limit
    group, why = job_groups.build("/s/session_1", "train", 256 * MB, 10 * MB, around=[scope, slice_])
    assert group is not None and why == "", "beside us, in the group around, which lets memory be limited now"
    assert group.path == f"{slice_.path}/sundogjob-session_1-train"
    assert group.group.limit_bytes() == 256 * MB + 10 * MB + 64 * MB
    assert group.add(77) and (Path(group.path) / "cgroup.procs").read_text() == "77"
    assert not group.remove(), "there is a process in it"
    (Path(group.path) / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    assert read_count(group.counter) == 2
    (Path(group.path) / "cgroup.procs").write_text("")
    assert group.remove() and sorted(os.listdir(scope.path)) == sorted(
        ["cgroup.procs", "cgroup.subtree_control", "cgroup.controllers"]
    )


def test_with_version_2_it_is_told_where_memory_cannot_be_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = Tree(tmp_path, monkeypatch).make("run.scope", processes="12\n")
    group, why = job_groups.build("/s/session_1", "train", 256 * MB, 0, around=[scope])
    assert group is None and "cgroup.subtree_control has no memory" in why
    assert not [name for name in os.listdir(scope.path) if name.startswith("sundogjob")]
