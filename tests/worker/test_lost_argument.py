"""A task whose argument is gone was not begun, whatever becomes of its worker after that."""

from __future__ import annotations

import socket
from typing import Any

from sundog.net import packets
from sundog.owner.objects import CopyLost
from sundog.wire import lanes as wire
from sundog.worker.answers import AnswerLane
from sundog.worker.executor import Executor


class _Unsent:
    """No result is on its way."""

    found = False


class _Executor:
    """As much of an executor as the reply of a lost argument needs."""

    shm_root = ""

    def __init__(self) -> None:
        self.unsent = _Unsent()

    def held(self, _lane: AnswerLane, _received: list[bytes] | None) -> list[bytes]:
        return []


def test_the_reply_of_a_lost_argument_does_not_wait_for_the_end_of_its_packet() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        lane = AnswerLane(b"o" * 8, theirs)
        executor: Any = _Executor()
        lost = CopyLost(b"x" * 20, "segment")
        Executor.reply_error(executor, lane, b"t" * 16, "f", lost, False, [], 0.0)
        # The next task of the packet may end this process: then the owner must have read this.
        [reply] = packets.decode(ours.recv(packets.RECV_BYTES, socket.MSG_DONTWAIT))
        assert reply == (b"t" * 16, wire.R_LOST, (b"x" * 20, "segment", []), 0.0)
