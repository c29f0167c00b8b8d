"""The zygote as a program of its own: the test is the node, and holds the other end of its socket and its lifeline."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sundog import isolation
from sundog.net.packets import Connection, make_pair
from sundog.wire.zygote import Exited, Fork, Forked, ForkFailed, Import
from sundog.worker.zygote import main

TIMEOUT_S = 60
NOTHING = pickle.dumps({})


@dataclass
class Zygote:
    """A zygote that runs, from where its node stands."""

    process: subprocess.Popen[bytes]
    node: Connection
    lifeline: int  # the end that the node holds
    session: Path
    shm_root: Path

    def begin(self) -> None:
        """Tell it its session, as the node's first message does."""
        self.node.sock.send(str(self.shm_root).encode())

    def fork(self, worker: bytes, common: bytes = NOTHING, spec: bytes = NOTHING) -> None:
        """Ask for a worker, whose end of the control socket is closed here."""
        ours, theirs = make_pair()
        self.node.send(Fork(worker, common, spec), (theirs.fileno(),))
        ours.close()
        theirs.close()

    def heard(self) -> tuple[Any, ...]:
        """Its next message."""
        assert self.node.wait(TIMEOUT_S), "the zygote is silent"
        received = self.node.receive()
        assert received is not None, "the zygote has closed its socket"
        return received[0]

    def cut(self) -> None:
        """Let go of the lifeline, as the kernel does when the node dies."""
        os.close(self.lifeline)
        self.lifeline = -1

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        return self.process.wait(TIMEOUT_S)


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    session, shm_root = tmp_path / "session", tmp_path / "shm-1-00"
    for folder in (session / "logs", session / "rings", shm_root):
        folder.mkdir(parents=True)
    (shm_root / ".session").symlink_to(session)
    ours, theirs = make_pair()
    lifeline, held = os.pipe()
    process = subprocess.Popen(
        isolation.command(f"{main.__module__}.main(['{theirs.fileno()}', '{lifeline}'])"),
        pass_fds=(theirs.fileno(), lifeline),
        cwd=tmp_path,
    )
    theirs.close()
    os.close(lifeline)
    found = Zygote(process, Connection(ours, str(shm_root)), held, session, shm_root)
    yield found
    found.node.close()
    if found.lifeline >= 0:
        found.cut()
    found.ended()


def test_a_worker_is_forked_and_its_end_is_told(zygote: Zygote) -> None:
    zygote.begin()
    zygote.fork(b"w" * 8)  # a description that lacks everything: the worker ends at once, the zygote goes on

    kind, worker, pid = zygote.heard()
    assert (kind, worker) == (Forked.kind, b"w" * 8) and pid not in (0, zygote.process.pid)
    kind, gone, status, peak_kib = zygote.heard()
    assert (kind, gone) == (Exited.kind, pid)
    assert os.waitstatus_to_exitcode(status) == 1 and peak_kib > 0


def test_requests_that_come_before_it_is_ready_wait_for_it(zygote: Zygote) -> None:
    zygote.begin()
    for number in range(7):  # more than it forks before it loads everything else
        zygote.fork(bytes([number]) * 8)

    told = [zygote.heard() for _ in range(14)]
    forked = [message[1] for message in told if message[0] == Forked.kind]
    assert forked == [bytes([number]) * 8 for number in range(7)], "in the order of the requests"
    assert len({message[1] for message in told if message[0] == Exited.kind}) == 7


def test_a_request_whose_socket_was_lost_is_refused_with_the_reason(zygote: Zygote) -> None:
    zygote.begin()
    zygote.node.send(Fork(b"w" * 8, NOTHING, NOTHING))

    kind, worker, reason = zygote.heard()
    assert (kind, worker) == (ForkFailed.kind, b"w" * 8)
    assert "no free file descriptor" in reason


def test_a_package_is_loaded_from_its_folder_and_one_that_fails_is_left_out(
    zygote: Zygote, tmp_path: Path
) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "broken_one.py").write_text("raise RuntimeError", encoding="utf-8")
    (folder / "good_one.py").write_text(
        "import os; open('loaded', 'w').write(str(os.getpid()))", encoding="utf-8"
    )
    zygote.begin()
    zygote.node.send(Import([("broken_one", str(folder)), ("good_one", str(folder))]))
    zygote.fork(b"w" * 8)

    assert zygote.heard()[0] == Forked.kind, "the request after it is answered"
    assert (tmp_path / "loaded").read_text() == str(zygote.process.pid)


def test_a_module_without_a_folder_is_not_taken_from_the_working_folder(
    zygote: Zygote, tmp_path: Path
) -> None:
    (tmp_path / "asyncio.py").write_text("open('loaded', 'w').close()", encoding="utf-8")
    zygote.begin()
    zygote.node.send(Import([("asyncio", "")]))
    zygote.fork(b"w" * 8)

    assert zygote.heard()[0] == Forked.kind
    assert not (tmp_path / "loaded").exists(), "the standard library's is meant"


@pytest.mark.parametrize("way", ["lifeline", "socket"])
def test_when_the_node_is_gone_it_removes_the_shared_memory_and_ends(zygote: Zygote, way: str) -> None:
    (zygote.shm_root / "segment").write_bytes(b"x")
    (zygote.session / "session.json").write_text("{}")
    zygote.begin()
    if way == "lifeline":
        zygote.cut()
    else:
        zygote.node.sock.shutdown(2)

    assert zygote.ended() == 0
    assert not zygote.shm_root.exists()
    assert not (zygote.session / "session.json").exists(), "no program may join the session now"
    assert (zygote.session / "logs").is_dir(), "logs and records stay"


def test_children_that_outlive_the_node_are_ended_with_it(zygote: Zygote, tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    body = "import subprocess\nCHILD = subprocess.Popen(['sleep', '600'])\nopen('pid', 'w').write(str(CHILD.pid))\n"
    (folder / "with_child.py").write_text(body, encoding="utf-8")
    zygote.begin()
    zygote.node.send(Import([("with_child", str(folder))]))
    zygote.fork(b"w" * 8)
    assert zygote.heard()[0] == Forked.kind
    child = os.pidfd_open(int((tmp_path / "pid").read_text()))
    zygote.cut()

    assert zygote.ended() == 0
    assert select.select([child], [], [], TIMEOUT_S)[0], "it has ended too"
    os.close(child)


def test_without_a_session_it_ends_and_leaves_no_log(zygote: Zygote) -> None:
    zygote.node.sock.send(b"")

    assert zygote.ended() == 0
    assert list((zygote.session / "logs").iterdir()) == []
