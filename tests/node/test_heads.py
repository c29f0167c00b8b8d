"""The node's keeper of the head process: what it does when that dies, without processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from sundog.engines import heads
from sundog.node.heads import HeadKeeper
from tests.node.fakes import FakeLoop, FakeNode


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeadKeeper:
    tmp_path.chmod(0o700)
    heads.write_head(str(tmp_path), heads.HeadInfo("127.0.0.1", 1, "t" * 32))
    node = FakeNode()
    node.params["head_fd"] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    node.session["path"] = str(tmp_path)
    pids = iter(range(1000, 2000))
    monkeypatch.setattr(HeadKeeper, "_spawn", lambda self, listener: next(pids))
    made = HeadKeeper(cast(Any, node))
    monkeypatch.setattr(os, "kill", lambda *_: None)
    return made


def _die(keeper: HeadKeeper) -> float:
    """Kill the process that runs, start the next when it is due; returns how long that was."""
    assert keeper.exited(keeper.pid, signal.SIGKILL)
    loop = cast(FakeLoop, keeper.node.loop)
    if not loop.timers:
        return -1.0
    loop.fire()
    return loop.delays[-1]


def test_a_session_without_a_head_starts_none() -> None:
    node = FakeNode()
    keeper = HeadKeeper(cast(Any, node))
    keeper.start()
    keeper.stop()
    assert not keeper.pid and not keeper.exited(0, 0)


def test_a_head_that_dies_is_started_again_and_the_log_says_how_it_ended(keeper: HeadKeeper) -> None:
    keeper.start()
    first = keeper.pid
    assert _die(keeper) >= 0
    assert keeper.pid not in (0, first)
    assert any("SIGKILL" in line for line in keeper.node.lines)  # type: ignore[attr-defined]
    keeper.stop()


def test_a_head_that_dies_young_again_and_again_is_given_up(keeper: HeadKeeper) -> None:
    keeper.start()
    delays = [_die(keeper) for _ in range(6)]
    assert delays[:5] == sorted(delays[:5]) and delays[-1] == -1.0
    assert keeper.listener is None
    assert heads.read_head(keeper.node.session["path"]) is None
    keeper.start()
    assert not keeper.pid


def test_the_end_of_another_child_is_none_of_its_business(keeper: HeadKeeper) -> None:
    keeper.start()
    assert not keeper.exited(keeper.pid + 1, 0)
    keeper.stop()
    assert heads.read_head(keeper.node.session["path"]) is None


def test_a_head_that_ends_with_the_session_is_not_started_again(keeper: HeadKeeper) -> None:
    keeper.start()
    keeper.node.stopping = True
    assert _die(keeper) == -1.0
    keeper.stop()
