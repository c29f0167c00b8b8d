"""Long bodies, read into one buffer."""

from __future__ import annotations

import socket
from typing import Any

from sundog.serve.body_reader import BodyReader
from sundog.serve.shared_bodies import BodyPool


class Protocol:
    """Notes what the reader tells."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def body_read(self, body: bytearray) -> None:
        self.told.append(body)

    def eof_received(self) -> None:
        self.told.append("eof")

    def connection_lost(self, _exc: Exception | None) -> None:
        self.told.append("lost")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


def test_a_body_is_read_to_its_end_and_not_beyond() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        protocol = Protocol()
        reader = BodyReader(protocol, 10, [b"ab", b"c"])  # type: ignore[arg-type]
        theirs.sendall(b"defghijNEXT")
        while not protocol.told:
            reader.buffer_updated(ours.recv_into(reader.get_buffer(-1)[:4]))
        assert protocol.told == [b"abcdefghij"]
        assert ours.recv(100) == b"NEXT"


def test_what_happens_to_the_connection_is_told_to_its_protocol() -> None:
    protocol = Protocol()
    reader = BodyReader(protocol, 10, [])  # type: ignore[arg-type]
    reader.pause_writing()
    reader.resume_writing()
    assert not reader.eof_received(), "the transport closes"
    reader.connection_lost(None)
    assert protocol.told == ["pause", "resume", "eof", "lost"]


def test_a_body_is_read_into_shared_memory_where_there_is_some() -> None:
    slot = BodyPool().take(5)
    assert slot is not None
    protocol = Protocol()
    reader = BodyReader(protocol, 5, [b"ab"], slot)  # type: ignore[arg-type]
    reader.get_buffer(-1)[:3] = b"cde"
    reader.buffer_updated(3)
    assert protocol.told == [slot]
    assert bytes(slot.view) == b"abcde"


def test_a_client_that_goes_away_in_the_middle_gives_the_memory_back() -> None:
    pool = BodyPool()
    for _ in range(17):  # there are sixteen slots
        slot = pool.take(5)
        assert slot is not None
        BodyReader(Protocol(), 5, [b"ab"], slot).connection_lost(None)  # type: ignore[arg-type]
