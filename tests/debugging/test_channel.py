"""The socket between a paused task and a terminal."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sundog import trust
from sundog.debugging import channel


def test_rows_travel_both_ways_and_the_folder_is_private(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)  # longer than an address has room for
    deep.mkdir(mode=0o700)
    listener = channel.listen(str(deep), "1")
    client = channel.connect(str(deep), "1")
    served, pid = channel.accept(listener)
    assert pid == os.getpid() and (deep / "debug").stat().st_mode & 0o777 == 0o700
    client.send("line", text="p x\nödd \ud800")
    assert (served.receive() or {})["kind"] == "line"
    served.send("ask", prompt="(Pdb) ")
    assert (client.receive() or {})["prompt"] == "(Pdb) "
    assert served.is_open()
    client.close()
    assert served.receive() is None and not served.is_open()
    served.close()
    listener.close()
    channel.remove(str(deep), "1")
    with pytest.raises(OSError, match="No such file"):
        channel.connect(str(deep), "1")


def test_what_is_no_row_ends_the_conversation(tmp_path: Path) -> None:
    listener = channel.listen(str(tmp_path), "1")
    client = channel.connect(str(tmp_path), "1")
    served, _ = channel.accept(listener)
    client.sock.sendall(b"no json\n[1]\n")
    assert served.receive() is None and served.receive() is None
    for each in (client, served, listener):
        each.close()


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "debug").mkdir()
    (tmp_path / "debug").chmod(0o777)
    with pytest.raises(trust.Untrusted):
        channel.listen(str(tmp_path), "1")


def test_an_interrupt_is_seen_behind_a_line_that_is_kept() -> None:
    ours, theirs = (channel.DebugChannel(sock) for sock in socket.socketpair())
    assert not ours.interrupted()
    theirs.send("line", text="p 1")
    theirs.send("interrupt")
    theirs.send("line", text="p 2")
    assert ours.interrupted() and not ours.interrupted()
    theirs.close()
    assert not ours.interrupted()
    assert [ours.receive(), ours.receive(), ours.receive()] == [
        {"kind": "line", "text": "p 1"},
        {"kind": "line", "text": "p 2"},
        None,
    ]
    ours.close()


def test_a_timeout_that_the_program_gives_all_its_sockets_does_not_end_a_pause(tmp_path: Path) -> None:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.01)
    try:
        listener = channel.listen(str(tmp_path), "t")
        client = channel.connect(str(tmp_path), "t")
        server, _ = channel.accept(listener)
    finally:
        socket.setdefaulttimeout(before)
    assert [each.gettimeout() for each in (listener, client.sock, server.sock)] == [None] * 3
    for each in (listener, client, server):
        each.close()
