"""An owner put together, and taken apart again with threads that still wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog import refs
from sundog.config import Config
from sundog.exceptions import RaySystemError
from sundog.owner.assemble import dismantle
from sundog.owner.rows import Fn, Task
from sundog.wire.control import NodesChanged, Notice
from sundog.wire.peers import AskValue
from tests.owner.fakes import ME
from tests.owner.whole import whole_owner


def test_refs_report_to_an_owner_from_its_making_to_its_end(tmp_path: Path) -> None:
    with whole_owner(tmp_path) as (owner, _):
        assert refs.hooks is owner
        dismantle(owner, RaySystemError("over"))
        assert refs.hooks is not owner


def test_an_owner_hears_the_node_and_other_processes(tmp_path: Path) -> None:
    with whole_owner(tmp_path) as (owner, node):
        assert Notice in owner.control.table and AskValue in owner.peers.table
        node.send(NodesChanged(2))
        with owner.lock:
            owner.reactor.pump()
        assert owner.segments.several


@pytest.mark.parametrize("recorded", [True, False])
def test_a_process_records_what_it_does_unless_that_is_switched_off(tmp_path: Path, recorded: bool) -> None:
    with whole_owner(tmp_path, Config(record_enabled=recorded, record_ring_events=64)):
        assert os.path.exists(tmp_path / "rings" / f"{ME.hex()}.ring") is recorded


def test_the_end_wakes_every_thread_that_waits_with_its_reason(tmp_path: Path) -> None:
    woken: list[object] = []
    with whole_owner(tmp_path) as (owner, _):
        owner.waiters[b"object"] = [woken.append]
        task = Task(owner.ids.task(), Fn(1, "f"), None, 0.0)
        owner.streams.open(task)
        owner.streams.of(task).wakers.append(lambda: woken.append("stream"))
        dismantle(owner, RaySystemError("the node is gone"))
        assert woken == [b"object", "stream"]
        with pytest.raises(RaySystemError, match=r"the node is gone"):
            owner.check_open()


def test_an_owner_that_is_gone_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with whole_owner(tmp_path):
        pass
    assert len(os.listdir("/proc/self/fd")) == before
