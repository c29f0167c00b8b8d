"""The node when descriptors, processes or memory are short: it waits and tries again, and forgets nothing."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from sundog.config import Config
from sundog.node import workers
from sundog.node.program import Node
from sundog.node.rows import Environment
from sundog.node.store import StoreKeeper
from sundog.node.workers import Workers
from sundog.state.instructions import StartWorker
from sundog.state.store import Spilled
from sundog.state.store_steps import SpillPlace
from tests.node.fakes import FakeJob, FakeLeases, FakeLine, FakeLoop, FakeNode, FakeProcess


class FailedStarts(FakeLeases):
    """Leases that keep which environments' workers did not start."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: list[str] = []

    def worker_start_failed(self, _node: bytes, env_key: str, _now: float) -> None:
        self.failed.append(env_key)


class NoLearning:
    """No package is learned."""

    def zygote_gone(self) -> None: ...


class ShortNode(FakeNode):
    """A node with one job and a store."""

    def __init__(self, folder: Path) -> None:
        super().__init__(shm_root=str(folder))
        self.session |= {"path": str(folder), "spill_folders": [f"{folder}/spilled"]}
        self.params["resources"] = {"object_store_memory": 1 << 20}
        self.jobs[b"job"] = FakeJob()
        self.starts, self.learning = FailedStarts(), NoLearning()
        self.leases = self.starts

    def do(self, steps: object) -> None: ...


def make_node(tmp_path: Path) -> Any:
    return ShortNode(tmp_path)


class RefusingListener:
    """A socket with a connection that cannot be accepted."""

    def fileno(self) -> int:
        return 7

    def _accept(self) -> Any:
        return refuse()


class AcceptingNode:
    """What the node's `_accept` needs of the node."""

    def __init__(self) -> None:
        self.loop, self.listener = FakeLoop(), RefusingListener()

    def log(self, text: str) -> None: ...

    def _connected(self, sock: object) -> None: ...

    def _accept(self) -> None:
        Node._accept(cast(Any, self))


def refuse(*_args: Any, **_kwargs: Any) -> Any:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_connection_that_cannot_be_accepted_is_not_tried_in_a_tight_loop() -> None:
    node = AcceptingNode()
    node.loop.add(7, node._accept)
    node._accept()
    assert node.loop.watched == {}
    node.loop.fire()
    assert list(node.loop.watched) == [7]


def test_a_zygote_that_cannot_be_replaced_now_is_replaced_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(tmp_path)
    found = Workers(node)
    found._lifeline_read = -1
    used: list[Any] = []
    monkeypatch.setattr(found, "use_zygote", lambda zygote, lifeline: used.append(zygote))
    monkeypatch.setattr(workers, "spawn_zygote", refuse)
    found._zygote_gone()
    assert found.zygote is None and not used
    monkeypatch.setattr(workers, "spawn_zygote", lambda *args: (1, 2))
    node.loop.fire()
    assert used == [(1, 2)] and not node.loop.timers


def test_a_worker_whose_socket_cannot_be_made_is_a_start_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(tmp_path)
    found = Workers(node)
    found.zygote = FakeLine()  # type: ignore[assignment]
    found.environments["env"] = Environment("env", b"job", {})
    monkeypatch.setattr(workers, "make_pair", refuse)
    found.start_now(StartWorker(b"node", "env"))
    assert node.starts.failed == ["env"] and not node.processes


def test_the_store_ends_after_what_it_writes_and_begins_nothing_more(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.config = Config(max_io_workers=1)
    keeper = StoreKeeper(node, b"node", str(tmp_path), [str(tmp_path / "spilled")], 1 << 20)
    begun, ended, late = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        begun.set()
        threading.Event().wait(0.1)
        ended.set()

    keeper._in_thread(write)
    keeper._in_thread(late.set)
    assert begun.wait(120)
    keeper.close()
    os.close(keeper._wake)
    assert ended.is_set() and not late.is_set()


def test_owners_hear_of_spilled_results_whose_maker_died(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    keeper = StoreKeeper(node, b"node", str(tmp_path), [str(tmp_path / "spilled")], 1 << 20)
    owner, maker = b"owner...", b"maker..."
    told = node.join(FakeProcess(owner))
    theirs = f"{owner.hex()}-{maker.hex()}-1"
    for name in (theirs, f"{owner.hex()}-{owner.hex()}-1", f"{maker.hex()}-{maker.hex()}-1"):
        keeper.store.entries[name] = Spilled(SpillPlace("file", 0, 1))
    keeper.tell_unsent(maker)
    assert told.sent == [("store_unsent", [theirs])]
