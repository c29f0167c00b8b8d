"""A zygote that replaces a dead one: started as a program, or not at all."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sundog.node.zygotes import spawn_zygote


def session_in(folder: Path) -> Any:
    return {"path": str(folder)}


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_a_zygote_that_cannot_be_started_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_named: object) -> int:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    before = descriptors()
    with pytest.raises(OSError, match="no more processes"):
        spawn_zygote(session_in(tmp_path), {}, 0)
    assert descriptors() == before


def test_the_new_zygote_alone_holds_the_other_end_of_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[Any]] = []

    def start(*args: Any, file_actions: Sequence[Any]) -> int:
        asked.append((*args, file_actions))
        return 4711

    monkeypatch.setattr(os, "posix_spawn", start)
    read, write = os.pipe()
    try:
        pid, ours = spawn_zygote(session_in(tmp_path), {"HOME": "/somewhere"}, read)
        [(_, command, environ, actions)] = asked
        assert pid == 4711 and environ["HOME"] == "/somewhere"
        assert command[-1].endswith("from sundog.worker.zygote import main; main(['3', '4'])")
        assert [action[-1] for action in actions if action[0] == os.POSIX_SPAWN_DUP2] == [2, 3, 4]
        # the program was not really started, so nothing holds the other end now
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        assert poll.poll(0)
        os.close(ours)
    finally:
        os.close(read)
        os.close(write)
