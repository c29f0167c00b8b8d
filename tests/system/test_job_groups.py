"""The control group of a job: made, limited by the kernel, removed; and the sentence where there can be none."""

from __future__ import annotations

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
    for version in (1, 2):  # a folder that is not the kernel's has none of its files
        group, why = job_groups.build(
            "/s/session", "a", MB, 0, around=[machine.Group(str(tmp_path), version)]
        )
        assert group is None and "No such file or directory" in why
        assert list(tmp_path.iterdir()) == []


def test_no_group_is_made_outside_of_a_limit(tmp_path: Path) -> None:
    inner, outer = machine.Group(str(tmp_path / "inner"), 2), machine.Group(str(tmp_path / "outer"), 2)
    for group in (inner, outer):
        Path(group.path).mkdir()
    assert [each.path for each in job_groups._places([inner, outer])] == [inner.path, outer.path]
    (tmp_path / "inner/memory.max").write_text("1000000\n")
    assert [each.path for each in job_groups._places([inner, outer])] == [inner.path]
