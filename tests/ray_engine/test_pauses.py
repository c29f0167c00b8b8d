"""Tasks that stand at a breakpoint on a cluster."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import struct
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from sundog.debugging import relay
from sundog.ray_engine import pauses


class Told:
    """What Home is told."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Any]] = []
        self.there = threading.Event()

    def tell(self, verb: str, row: Any) -> None:
        self.rows.append((verb, row))
        self.there.set()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    ray: Any = ModuleType("ray")
    ray.util = ModuleType("ray.util")
    ray.util.get_node_ip_address = lambda: "127.0.0.1"
    monkeypatch.setitem(sys.modules, "ray", ray)
    found = Told()
    monkeypatch.setattr(pauses, "_tell", found.tell)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    return found


def test_a_task_that_stands_can_be_asked_by_who_has_the_token_and_goes_on(told: Told) -> None:
    seen: list[int] = []

    def task() -> None:
        secret = 42
        pauses.hook(sys._getframe(0))
        seen.append(secret)

    thread = threading.Thread(target=task, daemon=True)
    thread.start()
    told.there.wait()
    verb, row = told.rows[0]
    assert verb == "paused" and row["place"].split(":")[0] == __file__ and row["pid"] == os.getpid()
    typed_out, typed_in = os.pipe()
    shown_out, shown_in = os.pipe()
    os.write(typed_in, b"p secret + 1\nc\n")
    os.close(typed_in)
    relay.visit(tuple(row["address"]), "another token", stdin=typed_out, stdout=shown_in)
    assert seen == []  # whoever does not have it is hung up on
    typed_again, typed_in = os.pipe()
    os.write(typed_in, b"p secret + 1\nc\n")
    os.close(typed_in)
    relay.visit(tuple(row["address"]), row["token"], stdin=typed_again, stdout=shown_in)
    thread.join()
    assert seen == [42] and b"43" in os.read(shown_out, 10_000)
    assert told.rows[1] == ("resumed", row["id"])
    for descriptor in (typed_out, typed_again, shown_out, shown_in):
        os.close(descriptor)


def test_strangers_who_show_nothing_or_no_text_neither_reach_the_task_nor_keep_its_user_waiting(
    told: Told,
) -> None:
    ended: list[str] = []

    def task() -> None:
        try:
            pauses.hook(sys._getframe(0))
            ended.append("went on")
        except BaseException as error:
            ended.append(repr(error))

    thread = threading.Thread(target=task, daemon=True)
    thread.start()
    told.there.wait()
    _, row = told.rows[0]
    address = tuple(row["address"])
    silent = [socket.create_connection(address) for _ in range(70)]
    half = socket.create_connection(address)
    half.sendall(row["token"][:5].encode())
    for said in (b"\xff\xfe\n", b"\n", b"x" * 1000, row["token"][:-1].encode() + b"\n"):
        with socket.create_connection(address) as noisy:
            noisy.sendall(said)
            with contextlib.suppress(ConnectionResetError):  # it may be hung up on before all of it is read
                assert noisy.recv(1) == b""
    gone = socket.create_connection(address)
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()  # with a reset
    typed_out, typed_in = os.pipe()
    os.write(typed_in, b"c\n")
    os.close(typed_in)
    shown_out, shown_in = os.pipe()
    relay.visit(address, row["token"], stdin=typed_out, stdout=shown_in)
    thread.join()
    assert ended == ["went on"]
    for each in (half, *silent):
        each.close()
    for pipe in (typed_out, shown_out, shown_in):
        os.close(pipe)
