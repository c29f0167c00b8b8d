"""The largest users of memory, named."""

from __future__ import annotations

import os
from typing import Any

import pytest

from sundog import machine
from sundog.node.memory_users import TOP, top_users, users_text
from tests.node.fakes import FakeJob, FakeNode, FakeProcess


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = FakeNode()
    monkeypatch.setattr(machine, "own_bytes", made.memory.own_bytes)
    monkeypatch.setattr(machine, "pids", lambda: list(made.memory.own))
    monkeypatch.setattr(machine, "title", lambda pid: f"program {pid}")
    monkeypatch.setattr(machine, "folder_bytes", lambda _folder: 0)
    return made


def test_each_process_is_called_by_what_it_is(node: Any) -> None:
    node.workers.by_pid, node.workers.zygote_pid = {7: b"worker01"}, 8
    node.join(FakeProcess(), FakeJob(pid=9))
    node.memory.own = {7: 50, 8: 40, 9: 30, os.getpid(): 20, 11: 10, 12: 0}
    assert top_users(node, lambda worker: f"resize() in {worker.decode()}") == [
        (7, 50, "resize() in worker01"),
        (8, 40, "the zygote"),
        (9, 30, "driver train.py"),
        (os.getpid(), 20, "the node"),
        (11, 10, "program 11"),
    ]


def test_the_ten_largest_are_told_with_the_object_store_among_them(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "folder_bytes", lambda _folder: 1000)
    node.memory.own = {100 + number: number for number in range(1, 30)}
    found = top_users(node, lambda _: "")
    assert len(found) == TOP and found[0] == (0, 1000, "the object store (shared memory)")
    assert [size for _, size, _ in found[1:]] == list(range(29, 20, -1))


def test_the_store_has_no_pid_in_the_text() -> None:
    lines = users_text(
        [(0, 2_000_000_000, "the object store"), (812, 1_250_000_000, "resize()")]
    ).splitlines()
    assert lines[1].split() == ["2.00", "GB", "the", "object", "store"]
    assert lines[2].split() == ["1.25", "GB", "pid", "812", "resize()"]
