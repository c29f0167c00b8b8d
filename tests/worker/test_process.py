"""What a worker is made of before it has a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from sundog import refs
from sundog.config import Config
from sundog.isolation import Interpreter
from sundog.job_spec import JobSpec
from sundog.net.packets import Connection, make_pair
from sundog.owner import assemble
from sundog.plain import as_dict
from sundog.wire.dicts import WorkerCommon
from sundog.worker.process import Parts


def common_of(tmp_path: Path, **settings: object) -> WorkerCommon:
    (tmp_path / "rings").mkdir(exist_ok=True)
    (tmp_path / "shm").mkdir(exist_ok=True)
    return {
        "session": {
            "name": "s",
            "path": str(tmp_path),
            "shm_root": str(tmp_path / "shm"),
            "spill_folders": [str(tmp_path / "disk")],
            "store_bytes": 1 << 20,
            "node_id": b"n" * 16,
        },
        "job": JobSpec(Interpreter([], [], []), str(tmp_path)),
        "config": as_dict(Config(**settings)),  # type: ignore[arg-type]
    }


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in range(1, signal.NSIG)]


def test_parts_are_built_without_descriptor_thread_or_handler(tmp_path: Path) -> None:
    Parts(common_of(tmp_path))  # what is imported at the first time has been imported
    before = os.listdir("/proc/self/fd"), threading.enumerate(), handlers(), refs.hooks
    parts = Parts(common_of(tmp_path))
    assert (os.listdir("/proc/self/fd"), threading.enumerate(), handlers(), refs.hooks) == before
    assert os.listdir(tmp_path / "rings") == []
    assert parts.owner.me == b"" and parts.executor.ring is parts.owner.ring


def test_parts_become_those_of_the_process_that_begins_with_them(tmp_path: Path) -> None:
    parts = Parts(common_of(tmp_path))
    owner, me, hooks = parts.owner, b"w" * 8, refs.hooks
    ours, theirs = make_pair()
    assemble.begin(owner, me, Connection(ours, str(tmp_path)))
    try:
        assert owner.ids.task()[:8] == owner.objects.me == owner.refs.me == me
        assert owner.segments._my_prefix.startswith(me.hex())
        assert (tmp_path / "rings" / f"{me.hex()}.ring").stat().st_size > 0
        assert "'get'" in (tmp_path / "rings" / f"{me.hex()}.ring.names").read_text()
        parts.inline.begin()
        assert parts.inline._lane.worker == me and parts.inline._lane.pid == os.getpid()
    finally:
        assemble.dismantle(owner, RuntimeError("over"))
        assemble.release(owner)
        refs.hooks = hooks
        theirs.close()


def test_parts_are_for_workers_of_one_session_with_the_same_settings_and_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(common_of(tmp_path))
    assert parts.fit(common_of(tmp_path))
    assert not parts.fit(common_of(tmp_path, spin_us=7))
    other = common_of(tmp_path)
    other["session"]["several"] = True
    assert not parts.fit(other)
    monkeypatch.setitem(sys.modules, "loaded_after_that", ModuleType("loaded_after_that"))
    assert not parts.fit(common_of(tmp_path))


def test_what_one_process_receives_is_not_seen_by_another(tmp_path: Path) -> None:
    buffer = Parts(common_of(tmp_path)).serving.buffer
    child = os.fork()
    if child == 0:
        buffer[:4] = b"mine"
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(buffer[:4]) == bytes(4)
