"""uvicorn's HTTP protocol with bounds: headers and URLs of a limited size, and a limited time to send them.

Owns the bounds, and the connection as requests see it (`Connection`): the head and the body of a short answer leave in
one packet, and a request is told when its client goes away. In a proxy's loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CONNECTION = "sundog.connection"  # in the scope of a request
HEAD_MAX_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 30.0
# How long the rest of a refused request is read and dropped: closing with bytes unread could take the answer away.
_LINGER_S = 2.0


class Connection:
    """A client's connection: uvicorn's transport, which can gather what is written."""

    __slots__ = ("_held", "_transport", "on_lost")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._held: list[bytes] | None = None
        self.on_lost: Callable[[], None] | None = None  # told to the request that is being answered

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send, or keep until `release`."""
        if self._held is None:
            self._transport.write(data)
        else:
            self._held.append(data)

    def hold(self) -> None:
        """Gather what is written from now on."""
        self._held = []

    def release(self) -> None:
        """Send all that was gathered at once."""
        held, self._held = self._held, None
        if held:
            self._transport.write(b"".join(held))

    def close(self) -> None:
        """Close, after what was gathered is sent."""
        self.release()
        self._transport.close()


class BoundedProtocol(HttpToolsProtocol):
    """Refuses clients whose request heads are too long or too slow."""

    _head_bytes = 0
    _head_timer: Any = None
    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        """A client has connected: its first request head must come in time."""
        self._connection = Connection(transport)
        super().connection_made(self._connection)  # type: ignore[arg-type]
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._unwatch_head()
        super().connection_lost(exc)
        tell, self._connection.on_lost = self._connection.on_lost, None
        if tell is not None:
            tell()

    def _watch_head(self) -> None:
        self._unwatch_head()
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._refuse, 408, b"Request Timeout")

    def _unwatch_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head_bytes = 0
        if self._head_timer is None:
            self._watch_head()
        super().on_message_begin()
        self.scope[CONNECTION] = self._connection  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        self._head_bytes += len(url)
        if self._head_bytes > HEAD_MAX_BYTES:
            self._refuse(414, b"URI Too Long")
        if not self._is_refused:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_MAX_BYTES:
            self._refuse(431, b"Request Header Fields Too Large")
        if not self._is_refused:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._unwatch_head()
        if not self._is_refused and not self.transport.is_closing():
            super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client; they are dropped once it was refused."""
        if not self._is_refused and not self.transport.is_closing():
            super().data_received(data)

    def _refuse(self, status: int, reason: bytes) -> None:
        self._unwatch_head()
        if self.transport is None or self.transport.is_closing() or self._is_refused:
            return
        self._is_refused = True
        body = reason + b"\n"
        head = (
            b"HTTP/1.1 %d %s\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n"
        )
        self.transport.write(head % (status, reason, len(body)) + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)  # or when the client closes its end
