"""uvicorn's HTTP protocol with bounds: headers and URLs of a limited size, and a limited time to send them.

Owns the bounds, and the connection as requests see it (`Connection`): the head and the body of a short answer leave in
one packet, and a request is told when its client goes away. Which way a request takes is decided here (`quick.py`). In
a proxy's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sundog.serve.body_reader import BodyReader
from sundog.serve.packed_http import scope_of
from sundog.serve.quick import QuickRequest, begin_quick, scope_values
from sundog.serve.rows import (
    MODEL_ID_HEADER,
    NO_DISCONNECT_HEADER,
    REQUEST_ID_HEADER,
    SESSION_ID_HEADER,
    TIMEOUT_HEADER,
)
from sundog.serve.shared_bodies import BodySlot, plain_body

if TYPE_CHECKING:
    from starlette.types import Scope
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from sundog.serve.answers import Headers
    from sundog.serve.calls import Call
    from sundog.serve.packed_http import ScopeValues
    from sundog.serve.proxy import ProxyApp

CONNECTION, CALL = "sundog.connection", "sundog.call"  # in the scope of a request
HEAD_MAX_BYTES = 64 * 1024
_HEAD_TIMEOUT_S = 30.0
# How long the remaining bytes of a refused request are read and dropped: closing with unread bytes could lose
# the answer.
_LINGER_S = 2.0
# For a body. A body of unknown length takes the long path if it is longer, or comes in parts. A body of known
# length may be as long as the limit of a call (`proxy.py`), and is waited for.
_HELD_MAX_BYTES = 64 * 1024
_AWAITED_MAX_BYTES = 4 * 1024 * 1024
_LENGTH = b"content-length"
_REQUEST_ID = REQUEST_ID_HEADER.encode()
_SPECIAL = (MODEL_ID_HEADER, SESSION_ID_HEADER, TIMEOUT_HEADER, NO_DISCONNECT_HEADER)
_NOTED = frozenset(
    [
        _REQUEST_ID,
        *(name.encode() for name in _SPECIAL),
        *(name.replace("-", "_").encode() for name in _SPECIAL),
        *(name.replace("_", "-").encode() for name in _SPECIAL),
        _LENGTH,
        b"expect",
        b"x-forwarded-for",
        b"x-forwarded-proto",
    ]
)


class HttpConnection:
    """A client's connection: uvicorn's transport, which can gather what is written."""

    __slots__ = ("_held", "_transport", "on_lost")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] | None = None
        self.on_lost: Callable[[], None] | None = None  # called for the request that is being answered

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
    """Refuses clients whose request heads are too long or too slow, and gives plain requests the short way."""

    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _idle_timer: asyncio.TimerHandle | None = None
    _idle_since_s = 0.0
    _is_refused = False
    _in_head = False
    _is_special = False  # the request needs something that only the long path supports
    _length: int | None = None  # the length of the body, if it is known and the body may be waited for
    _request_id: bytes | None = None
    _method = ""
    _keeps = True
    _held: list[bytes] | None = None  # the body of a request that may take the short path
    _quick: QuickRequest | None = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        app = self.config.app
        options = getattr(app, "options", None)
        self._head_timeout_s = getattr(options, "head_timeout_s", _HEAD_TIMEOUT_S)
        self._front: ProxyApp | None = None
        if getattr(app, "has_short_way", False) and not self.root_path:
            self._front = app  # type: ignore[assignment]  # a proxy's own app says so

    # ------------------------------------------------------------------ the connection
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a stream's
        """A client has connected: its first request head must come in time."""
        self._connection = HttpConnection(transport)
        super().connection_made(self._connection)  # type: ignore[arg-type]
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._unwatch_head()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        super().connection_lost(exc)
        if self._quick is not None:
            self._quick.lost()
            self._quick = None
        tell, self._connection.on_lost = self._connection.on_lost, None
        if tell is not None:
            tell()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client; they are dropped once it was refused."""
        if self._is_refused or self.transport.is_closing():
            return
        super().data_received(data)
        if self._held is not None and not self.transport.is_closing():  # more of the body is to come
            if self._length is None:
                self._give_up_short_way()
            elif self._length - sum(map(len, self._held)) > _HELD_MAX_BYTES:
                assert self._front is not None  # only what may take the short way is held
                slot = self._front.bodies.take(self._length)
                self._connection.set_protocol(BodyReader(self, self._length, self._held, slot))
        if self._in_head and self._head_timer is None and not self._is_refused:
            self._watch_head()

    def shutdown(self) -> None:
        """The server ends: a request that runs is answered first."""
        if self._quick is not None:
            self._quick.keeps = False
        else:
            super().shutdown()

    # ------------------------------------------------------------------ bounds
    def _watch_head(self) -> None:
        self._head_timer = self.loop.call_later(self._head_timeout_s, self._refuse, 408, b"Request Timeout")

    def _unwatch_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

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

    # ------------------------------------------------------------------ what the parser finds
    def on_message_begin(self) -> None:
        """A request begins."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = self._is_special = False
        self._request_id = self._length = None
        self._head_bytes = 0
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        self._head_bytes += len(url)
        if self._head_bytes > HEAD_MAX_BYTES:
            self._refuse(414, b"URI Too Long")
        if not self._is_refused:
            self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_MAX_BYTES:
            self._refuse(431, b"Request Header Fields Too Large")
        if self._is_refused:
            return
        name = name.lower()
        if name in _NOTED:
            if name == _REQUEST_ID:
                self._request_id = value
            elif name == _LENGTH:
                length = int(value) if value.isdigit() and len(value) < 20 else _AWAITED_MAX_BYTES + 1
                self._length = length if length <= _AWAITED_MAX_BYTES else None
            else:
                self._is_special = True
                self.expect_100_continue |= name == b"expect" and value.lower() == b"100-continue"
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._in_head = False
        self._unwatch_head()
        if self._is_refused or self.transport.is_closing():
            return
        if self._quick is not None:  # a second request before the first is answered
            self._quick.take_long_way()
        parser, cycle = self.parser, self.cycle
        if (
            self._front is not None
            and not self._is_special
            and (cycle is None or cycle.response_complete)
            and not self.flow.write_paused
            and not parser.should_upgrade()
            and parser.get_http_version() == "1.1"
        ):
            self._held = []
            self._method = parser.get_method().decode("ascii")
            self._keeps = parser.should_keep_alive()
            return
        self.scope = self._scope({})
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._is_refused:
            return
        if self._held is None:
            super().on_body(body)
            return
        self._held.append(body)
        if len(body) > _HELD_MAX_BYTES and self._length is None:
            self._give_up_short_way()

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._is_refused:
            return
        held, self._held = self._held, None
        if held is None:
            super().on_message_complete()
            return
        self._begin(b"".join(held) if held else b"")

    def body_read(self, body: bytearray | BodySlot) -> None:
        """A long request's body is whole. uvicorn's parser did not see it: a new one waits for the next request."""
        self._connection.set_protocol(self)
        self.parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(AttributeError):  # as uvicorn sets it, where httptools knows it
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._held = None
        self._begin(body)

    def _begin(self, body: bytes | bytearray | BodySlot) -> None:
        assert self._front is not None  # else the long way was taken at the end of the head
        quick, values = begin_quick(self._front, self, self._method, self.headers, body, self._request_id)
        if quick is None:
            own = plain_body(body)
            if isinstance(body, BodySlot):
                body.release()
            self.take_long_way(values, self.headers, own, False, self._keeps, None)
        else:
            quick.keeps = self._keeps
            self._quick = quick

    # ------------------------------------------------------------------ the two ways
    def finish_quick(self, answer: bytes, keeps: bool) -> None:
        """A request on the short way is answered."""
        self._quick = None
        transport = self._connection._transport
        if transport.is_closing():
            return
        transport.write(answer)
        self.server_state.total_requests += 1
        if not keeps:
            transport.close()
            return
        self._idle_since_s = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._look_if_idle)

    def _look_if_idle(self) -> None:
        """One timer for all requests of the connection."""
        self._idle_timer = None
        is_busy = self._quick is not None or (self.cycle is not None and not self.cycle.response_complete)
        now = self.loop.time()
        left = self._idle_since_s + self.timeout_keep_alive - now
        if is_busy or self._in_head or self._held is not None:
            left = self.timeout_keep_alive
        if left <= 0:
            self.timeout_keep_alive_handler()
        else:
            self._idle_timer = self.loop.call_later(left, self._look_if_idle)

    def on_response_complete(self) -> None:
        """A request on the long way is answered."""
        self._idle_since_s = self.loop.time()
        super().on_response_complete()

    def _give_up_short_way(self) -> None:
        held, self._held = self._held, None
        _, values = scope_values(self, self._method)
        self.take_long_way(values, self.headers, b"".join(held or ()), True, self._keeps, None)

    def take_long_way(
        self,
        values: ScopeValues,
        headers: Headers,
        body: bytes | bytearray,
        more: bool,
        keeps: bool,
        call: Call | None,
    ) -> None:
        """Have uvicorn run a request as an ASGI app's; `call`: the one that it has made already, or None."""
        self._quick = None
        scope = self._scope(scope_of(values, headers))
        scope[CALL] = call
        cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keeps,
            on_response=self.on_response_complete,
        )
        cycle.body += body
        cycle.more_body = more
        cycle.message_event.set()
        self.cycle = cycle
        self._start_asgi_task(cycle, self.app)

    def _scope(self, values: Scope) -> Any:
        return {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": self.root_path,
            "headers": self.headers,
            "state": self.app_state.copy(),
            CONNECTION: self._connection,
            **values,
        }
