"""A small epoll loop: descriptors that become readable, timers, and sends that never block.

The node runs on this instead of asyncio, whose import alone costs a third of sundog's start-up (see
docs/decisions). Single-threaded; a handler must not block.
"""

from __future__ import annotations

import heapq
import itertools
import select
import sys
import time
from collections import deque
from collections.abc import Callable

from sundog.net import sockets as socket
from sundog.net.packets import Connection, NoRoom

_monotonic = time.monotonic
_ROOM_AGAIN_S = 0.05


class Loop:
    """Calls handlers of readable descriptors and due timers until stopped."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.stopped = False

    def add(self, fd: int, on_readable: Callable[[], None]) -> None:
        """Watch a descriptor."""
        self._readers[fd] = on_readable
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Stop watching a descriptor; call before closing it."""
        if self._readers.pop(fd, None) is not None:
            self._writers.pop(fd, None)
            self._epoll.unregister(fd)

    def when_writable(self, fd: int, call: Callable[[], None] | None) -> None:
        """Call when `fd` takes data again; None ends it."""
        if fd not in self._readers:
            return
        if call is None:
            self._writers.pop(fd, None)
            self._epoll.modify(fd, select.EPOLLIN)
        else:
            self._writers[fd] = call
            self._epoll.modify(fd, select.EPOLLIN | select.EPOLLOUT)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once, after this many seconds."""
        heapq.heappush(self._timers, (_monotonic() + seconds, next(self._order), call))

    def run(self) -> None:
        """Run until `stopped`."""
        while not self.stopped:
            timeout: float | None = None
            if self._timers:
                timeout = max(0.0, self._timers[0][0] - _monotonic())
            for fd, what in self._epoll.poll(timeout):
                if what & select.EPOLLOUT:
                    _guard(self._writers.get(fd))
                if what & ~select.EPOLLOUT:
                    _guard(self._readers.get(fd))
            now = _monotonic()
            while self._timers and self._timers[0][0] <= now:
                _guard(heapq.heappop(self._timers)[2])


def _guard(call: Callable[[], None] | None) -> None:
    """Run a handler; a defect in one is written to the log and does not end the others."""
    if call is None:
        return
    try:
        call()
    except Exception as error:
        try:
            import traceback
        except (OSError, ImportError):  # no descriptor is free
            print(f"a defect: {error!r}", file=sys.stderr)
        else:
            traceback.print_exc()


class Line:
    """A connection on a loop: messages in order, with descriptors; sending never blocks.

    What the socket does not take waits in memory, descriptors included (they are duplicated).
    """

    def __init__(
        self,
        loop: Loop,
        connection: Connection,
        on_message: Callable[[tuple[object, ...], list[int]], None],
        on_closed: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.connection = connection
        self._on_message = on_message
        self._on_closed = on_closed
        self._backlog: deque[tuple[tuple[object, ...], tuple[int, ...]]] = deque()
        self._no_room = False
        self.closed = False
        loop.add(connection.fileno(), self._read)

    def send(self, message: tuple[object, ...], fds: tuple[int, ...] = ()) -> None:
        """Send, or queue; to a closed line it is lost. Takes over `fds`: they are closed once sent."""
        if self.closed:
            _close_all(fds)
            return
        if self._backlog:
            self._backlog.append((message, fds))
            return
        if not self._try(message, fds):
            self._backlog.append((message, fds))
            self._flush_later()

    def _flush_later(self) -> None:
        """When the socket takes more; or, for a message that is to be written to a file, when there may be room."""
        fd = self.connection.fileno()
        if self._no_room:
            self.loop.when_writable(fd, None)
            self.loop.after(_ROOM_AGAIN_S, self._flush)
        else:
            self.loop.when_writable(fd, self._flush)

    def _try(self, message: tuple[object, ...], fds: tuple[int, ...]) -> bool:
        self._no_room = False
        try:
            self.connection.send(message, fds, socket.MSG_DONTWAIT)
        except BlockingIOError as error:
            self._no_room = isinstance(error, NoRoom)
            return False
        except OSError:
            pass  # the descriptor is gone: its reader notices
        _close_all(fds)
        return True

    def _flush(self) -> None:
        if self.closed:
            return
        while self._backlog:
            if not self._try(*self._backlog[0]):
                self._flush_later()
                return
            self._backlog.popleft()
        self.loop.when_writable(self.connection.fileno(), None)

    def _read(self) -> None:
        for _ in range(32):
            if not self._read_one():
                return

    def drain(self) -> None:
        """Handle all that has arrived: its sender is dead, and no event will tell of what is left."""
        while self._read_one():
            pass

    def _read_one(self) -> bool:
        """Handle one message; False if there is none."""
        if not self.closed:
            try:
                received = self.connection.receive()
            except BlockingIOError:
                return False
            except OSError:
                received = None
            if received is not None:
                self._on_message(*received)
                return True
            self.close()
            self._on_closed()
        return False

    def close(self) -> None:
        """Stop watching and close."""
        if not self.closed:
            self.closed = True
            self.loop.remove(self.connection.fileno())
            self.connection.close()
            for _, fds in self._backlog:
                _close_all(fds)
            self._backlog.clear()


def _close_all(fds: tuple[int, ...]) -> None:
    import os

    for fd in fds:
        os.close(fd)
