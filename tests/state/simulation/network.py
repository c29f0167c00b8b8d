"""Messages on their way between simulated processes."""

from __future__ import annotations

import random
from collections import deque

Message = tuple[object, ...]


class Network:
    """Channels that keep their own order, and nothing else."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._channels: dict[tuple[bytes, bytes], deque[Message]] = {}
        self._busy: list[tuple[bytes, bytes]] = []

    def send(self, sender: bytes, receiver: bytes, *message: object) -> None:
        queue = self._channels.setdefault((sender, receiver), deque())
        if not queue:
            self._busy.append((sender, receiver))
        queue.append(message)

    def next(self) -> tuple[bytes, bytes, Message] | None:
        """Take the first message of a channel chosen by the seed."""
        if not self._busy:
            return None
        at = int(self._rng.random() * len(self._busy))
        channel = self._busy[at]
        queue = self._channels[channel]
        message = queue.popleft()
        if not queue:
            self._busy[at] = self._busy[-1]
            self._busy.pop()
        return channel[0], channel[1], message

    def lose(self, receiver: bytes) -> list[Message]:
        """Take away all that is on its way to ``receiver``, who died."""
        lost: list[Message] = []
        for channel in [channel for channel in self._busy if channel[1] == receiver]:
            self._busy.remove(channel)
            lost += self._channels.pop(channel)
        return lost

    def __bool__(self) -> bool:
        return bool(self._busy)
