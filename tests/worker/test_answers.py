"""Replies on their way to an owner: none is lost or doubled, whoever queues and whoever sends."""

from __future__ import annotations

import _socket
import errno
import os
import socket
import threading
from typing import Any

from sundog.net import packets
from sundog.worker.answers import FLUSH_BYTES, AnswerLane

_THREADS = 4
_EACH = 3000


def _read_all(sock: socket.socket, into: list[Any], count: int) -> None:
    while len(into) < count:
        into.extend(packets.decode(sock.recv(packets.RECV_BYTES)))


def test_threads_that_queue_and_a_thread_that_sends_lose_nothing() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.settimeout(120)
        lane = AnswerLane(b"o" * 8, theirs)
        got: list[Any] = []
        reader = threading.Thread(target=_read_all, args=(ours, got, _THREADS * _EACH))
        done = threading.Event()

        def answer(who: int) -> None:
            for number in range(_EACH):
                lane.reply((bytes([who]), 0, number, 0.0), 8, "")

        def guard() -> None:
            while not done.is_set():
                lane.flush("")

        workers = [threading.Thread(target=answer, args=(who,)) for who in range(_THREADS)]
        guarding = threading.Thread(target=guard)
        for thread in (reader, guarding, *workers):
            thread.start()
        for thread in workers:
            thread.join()
        done.set()
        guarding.join()
        lane.flush("")
        reader.join()
        for who in range(_THREADS):
            # Each thread's own in their order; all of them, once.
            assert [number for sender, _, number, _ in got if sender == bytes([who])] == list(range(_EACH))


def test_a_packet_that_is_full_leaves_before_the_next_reply_is_queued() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.settimeout(120)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        lane = AnswerLane(b"o" * 8, theirs)
        small, large = b"s" * 1000, b"l" * (packets.MESSAGE_MAX_BYTES - 5000)
        lane.reply((b"1", 0, small, 0.0), len(small), "/nowhere")
        assert lane.out, "a small reply waits"
        lane.reply((b"2", 0, large, 0.0), len(large), "/nowhere")  # together they would need a file
        sent = [packets.decode(ours.recv(packets.RECV_BYTES)) for _ in range(2)]
        assert [[reply[0] for reply in packet] for packet in sent] == [[b"1"], [b"2"]]
        assert not lane.out and lane.out_bytes == 0
        assert len(large) > FLUSH_BYTES


class Refusing(_socket.socket):
    """A socket for which the kernel has no memory at first."""

    left = 3

    def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
        if self.left:
            self.left -= 1
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        return super().send(data, flags)


def test_replies_that_the_kernel_has_no_memory_for_are_sent_when_it_has() -> None:
    one, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours = Refusing(fileno=one.detach())
    with theirs:
        theirs.settimeout(60)
        lane = AnswerLane(b"o" * 8, ours)
        lane.reply((b"1", 0, None, 0.0), 8, "/nowhere")
        lane.flush("/nowhere")
        ours.left = 1
        lane.send_one((b"2", 0, None, 0.0))
        got: list[Any] = []
        _read_all(theirs, got, 2)
        assert [reply[0] for reply in got] == [b"1", b"2"]
    ours.close()
