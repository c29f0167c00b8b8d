"""The node when descriptors, processes or memory are short: it waits and tries again, and forgets nothing."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sundog.config import Config
from sundog.node import workers
from sundog.node.program import Node
from sundog.node.store import StoreKeeper
from sundog.node.workers import Workers
from sundog.state.instructions import StartWorker
from sundog.state.store import Spilled
from sundog.state.store_steps import SpillPlace


class FakeLoop:
    """Timers that the test fires, descriptors that it looks at."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.watched: set[int] = set()

    def after(self, _seconds: float, call: Callable[[], None]) -> None:
        self.timers.append(call)

    def add(self, fd: int, _call: Callable[[], None]) -> None:
        self.watched.add(fd)

    def remove(self, fd: int) -> None:
        self.watched.discard(fd)

    def fire(self) -> None:
        timers, self.timers = self.timers, []
        for call in timers:
            call()


def make_node(tmp_path: Path) -> Any:
    failed: list[str] = []
    return SimpleNamespace(
        session={
            "path": str(tmp_path),
            "shm_root": str(tmp_path),
            "spill_folders": [f"{tmp_path}/spilled"],
            "name": "s",
        },
        params={"environ": {}, "resources": {"object_store_memory": 1 << 20}},
        config=Config(),
        loop=FakeLoop(),
        processes={},
        jobs={b"job": SimpleNamespace(job_id=b"job", spec=None)},
        stopping=False,
        node_id=b"node",
        failed=failed,
        lines=[],
        log=lambda text: None,
        now=lambda: 0.0,
        do=lambda steps: None,
        learning=SimpleNamespace(zygote_gone=lambda: None),
        leases=SimpleNamespace(worker_start_failed=lambda node, env_key, now: failed.append(env_key)),
    )


def refuse(*_args: Any, **_kwargs: Any) -> Any:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_connection_that_cannot_be_accepted_is_not_tried_in_a_tight_loop() -> None:
    loop = FakeLoop()
    loop.watched.add(7)
    node: Any = SimpleNamespace(
        loop=loop, log=lambda text: None, listener=SimpleNamespace(fileno=lambda: 7, _accept=refuse)
    )
    node._connected = lambda sock: None
    node._accept = lambda: Node._accept(node)
    node._accept()
    assert loop.watched == set()
    loop.fire()
    assert loop.watched == {7}


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
    found.zygote = SimpleNamespace()  # type: ignore[assignment]
    found.environments["env"] = SimpleNamespace(job_id=b"job")  # type: ignore[assignment]
    monkeypatch.setattr(workers, "make_pair", refuse)
    found.start_now(StartWorker(b"node", "env"))
    assert node.failed == ["env"] and not node.processes


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
    sent: list[Any] = []
    owner, maker = b"owner...", b"maker..."
    node.processes[owner] = SimpleNamespace(line=SimpleNamespace(send=sent.append))
    theirs = f"{owner.hex()}-{maker.hex()}-1"
    for name in (theirs, f"{owner.hex()}-{owner.hex()}-1", f"{maker.hex()}-{maker.hex()}-1"):
        keeper.store.entries[name] = Spilled(SpillPlace("file", 0, 1))
    keeper.tell_unsent(maker)
    assert sent == [("store_unsent", [theirs])]
