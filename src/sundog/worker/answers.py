"""Our end of a lane: the functions that an owner has sent, and the replies that go back to it.

Owns what belongs to one owner in this worker. Replies are queued by whichever thread ran the task and leave in
packets; `serving.py` and its kin decide when.
"""

from __future__ import annotations

import pickle
import threading
import time
from typing import TYPE_CHECKING, Any

from sundog.net import packets
from sundog.net import sockets as socket
from sundog.wire import lanes as wire

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_BYTES = 64 << 10
_ROOM_AGAIN_S = 0.05
_PACKET_BYTES = packets.MESSAGE_MAX_BYTES - 4032


class LoadedFn:
    """A function of an owner's, loaded on first use."""

    __slots__ = (
        "blob",
        "calls",
        "code",
        "code_hash",
        "function",
        "max_calls",
        "name",
        "name_id",
        "plain",
        "retry",
        "returns",
    )

    def __init__(self, described: wire.FnWire) -> None:
        _, self.code_hash, self.blob, self.name, self.returns, self.retry, self.max_calls = described
        self.function: Any = None
        self.code = ""
        # Function, name, the name's number, retry: set once the function is loaded, if it has no other
        # options.
        self.plain: tuple[Callable[..., object], str, int, object] | None = None
        self.calls = 0
        self.name_id = 0  # known once the function is loaded, with the fingerprint of its code


class AnswerLane:
    """The worker's end of a lane: tasks come in, replies go out.

    Any thread appends to `out` without a lock: one append is atomic. The sending thread removes what it has
    copied, under the lock, so that packets are sent in order. Lost additions to `out_bytes` do no harm: a
    message that has become too long for a packet is sent as a file.
    """

    __slots__ = ("first_s", "fns", "lock", "out", "out_bytes", "owner_id", "sock")

    def __init__(self, owner_id: bytes, sock: socket.socket) -> None:
        self.owner_id = owner_id
        self.sock = sock
        self.fns: dict[int, LoadedFn] = {}
        self.lock = threading.Lock()
        self.out: list[wire.Reply] = []
        self.out_bytes = 0
        self.first_s = 0.0

    def reply(self, message: wire.Reply, size: int, shm_root: str) -> None:
        """Queue a reply; full packets are sent at once."""
        total = self.out_bytes + size + 64
        if total > _PACKET_BYTES and self.out:
            self.flush(shm_root)
            total = size + 64
        self.out_bytes = total
        self.out.append(message)
        if total > FLUSH_BYTES:
            self.flush(shm_root)

    def flush(self, shm_root: str) -> None:
        """Send what is queued."""
        if self.out:
            with self.lock:
                if self.out:
                    self._send(shm_root)

    def send_one(self, message: wire.Reply) -> None:
        """Send one small reply at once; nothing else may be queued."""
        self._send_packet(pickle.dumps([message], 5))

    def _send(self, shm_root: str) -> None:
        self.out_bytes = 0
        out = self.out[:]
        del self.out[: len(out)]
        data = pickle.dumps(out, 5)
        while len(data) > packets.MESSAGE_MAX_BYTES:
            try:
                data = packets.encode(out, shm_root)
            except packets.NoRoom:
                time.sleep(_ROOM_AGAIN_S)  # the owner cannot continue without these replies
        self._send_packet(data)

    def _send_packet(self, data: bytes) -> None:
        # A blocking send: an owner never blocks while it sends to a worker, so it will read. If the owner
        # died, the send fails here, and the node handles the death.
        while True:
            try:
                self.sock.send(data)
            except OSError as error:
                if error.errno in packets.PASSING:
                    time.sleep(_ROOM_AGAIN_S)
                    continue
            return
