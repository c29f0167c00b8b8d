"""Plain requests the short way: from the parser to a replica and back, with no asyncio task and no ASGI in between.

::

    client ══► parser ──► QuickRequest ──handle_http(bytes)──► a replica
    client ◄══ one write ◄── its answer, packed ◄───────────────┘
                     └─ a stream, an error, a refusal, a second request on the connection: the long way (`proxy.py`)

Owns one request from its end until its answer, or until it takes the long way: as nothing has been sent to the client
by then, no client sees a difference. In a proxy's loop.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from sundog.serve.packed_http import metadata_of, pack_request, scope_of, unpack_answer
from sundog.serve.request_ids import new_request_id, next_internal_id
from sundog.serve.rows import REQUEST_ID_HEADER, Rejection, Route
from sundog.serve.shared_bodies import BodySlot, plain_body

if TYPE_CHECKING:
    import asyncio

    from sundog.serve.answers import Headers
    from sundog.serve.calls import Call
    from sundog.serve.packed_http import ScopeValues
    from sundog.serve.proxy import ProxyApp
    from sundog.serve.router import Router

_perf = time.perf_counter
_REQUEST_ID = REQUEST_ID_HEADER.encode()
_CLOSE = b"connection: close\r\n"


class QuickConnection(Protocol):
    """The connection that a request came on (`http_protocol.BoundedProtocol`)."""

    url: bytes
    scheme: Literal["http", "https"] | None
    client: tuple[str, int] | None
    server: tuple[str, int | None] | None

    def finish_quick(self, answer: bytes, keeps: bool) -> None:
        """The request is answered."""

    def take_long_way(
        self,
        values: ScopeValues,
        headers: Headers,
        body: bytes | bytearray,
        more: bool,
        keeps: bool,
        call: Call | None,
    ) -> None:
        """The request continues as an ordinary one."""


class QuickRequest:
    """One request on its short way."""

    __slots__ = (
        "_app", "_began", "_body", "_headers", "_internal_id", "_protocol", "_ref", "_replica", "_request_id", "_route",
        "_router", "_scope", "is_over", "keeps",
    )  # fmt: skip

    def __init__(self, app: ProxyApp, protocol: QuickConnection, route: Route, router: Router) -> None:
        self._app, self._protocol, self._route, self._router = app, protocol, route, router
        self._began = _perf()
        self.is_over = False
        self.keeps = True  # whether the connection is kept for further requests

    def begin(
        self,
        scope: ScopeValues,
        headers: Headers,
        body: bytes | bytearray | BodySlot,
        request_id: bytes | None,
    ) -> bool:
        """Send it to a replica. False: none takes it now."""
        route = self._route
        self._scope, self._headers, self._body = scope, headers, body
        if request_id:
            name = self._request_id = request_id.decode("latin-1")
        else:  # the app finds it among the headers, chosen by the client or here
            name = self._request_id = new_request_id()
            self._headers = headers = [*headers, (_REQUEST_ID, name.encode())]
        internal = self._internal_id = next_internal_id()
        found = self._router.place_quick(
            *pack_request(name, internal, route.prefix, route.app_name, scope, headers, body)
        )
        if found is None:
            return False
        self._replica, self._ref = found
        self._app.begun()
        self._ref.as_future().add_done_callback(self._answered)
        return True

    def _answered(self, done: asyncio.Future[object]) -> None:
        if self.is_over:
            done.exception()  # read, so that asyncio does not warn
            self._let_go()
            return
        value = done.result() if done.exception() is None else None
        if type(value) is not bytes:
            if type(value) is Rejection and value.is_body_unreadable:
                self._app.bodies.is_off = True
            self.take_long_way()
            self._let_go()
            return
        self._let_go()
        self.is_over = True
        status, head, body, closes = unpack_answer(value)
        self._router.quick_ended(self._replica, self._began)
        if closes:
            self.keeps = False
        elif not self.keeps:
            head += _CLOSE
        self._protocol.finish_quick(
            b"%bx-request-id: %b\r\n\r\n%b"
            % (STATUS_LINE[status] + head, self._request_id.encode("latin-1", "replace"), body),
            self.keeps,
        )
        self._note(status)

    def _let_go(self) -> None:
        """The call is over: no replica reads its body any more."""
        if isinstance(self._body, BodySlot):
            self._body.release()
        self._body = b""

    def _note(self, status: int) -> None:
        app, route, scope = self._app, self._route, self._scope
        app.ongoing -= 1
        seconds = _perf() - self._began
        app.metrics.ended(route.prefix, scope[0], status, route.app_name, seconds)
        if app.log is not None:
            app.log.note(self._request_id, scope[0], scope[2], str(status), seconds)

    def lost(self) -> None:
        """The client has gone away: cancel the request."""
        if self.is_over:
            return
        self.is_over = True
        with suppress(Exception):
            self._adopted().cancel()
        self._note(499)

    def _adopted(self) -> Call:
        """The request as a call of its router, which owns it from now on."""
        meta = metadata_of(self._request_id, self._internal_id, self._route.prefix, self._route.app_name)
        scope = scope_of(self._scope, self._headers)
        return self._router.adopt(
            meta, (scope, plain_body(self._body), False), self._replica, self._ref, self._began
        )

    def take_long_way(self) -> None:
        """The request continues as an ordinary one, with the call that it has made."""
        self.is_over = True
        self._app.ongoing -= 1
        self._protocol.take_long_way(
            self._scope, self._headers, plain_body(self._body), False, self.keeps, self._adopted()
        )


def scope_values(protocol: QuickConnection, method: str) -> tuple[str, ScopeValues]:
    """The path of a request, and the values of its scope.

    Raises:
        httptools.HttpParserInvalidURLError: its URL is none.
    """
    url = httptools.parse_url(protocol.url)
    raw_path: bytes = url.path
    path = raw_path.decode("ascii")
    if "%" in path:
        path = unquote(path)
    values = (method, protocol.scheme, path, raw_path, url.query or b"", "", protocol.client, protocol.server)
    return path, values


def begin_quick(
    app: ProxyApp,
    protocol: QuickConnection,
    method: str,
    headers: Headers,
    body: bytes | bytearray | BodySlot,
    request_id: bytes | None,
) -> tuple[QuickRequest | None, ScopeValues]:
    """Begin a request whose body is here; None if it has to take the long way. And the values of its scope.

    Raises:
        httptools.HttpParserInvalidURLError: its URL is none.
    """
    path, values = scope_values(protocol, method)
    route = None if path.startswith("/-/") else app.match(path)
    if route is None:
        return None, values
    if route.prefix != "/":
        values = (*values[:5], route.prefix, *values[6:])
    quick = QuickRequest(app, protocol, route, app.router_of(route))
    return (quick if quick.begin(values, headers, body, request_id) else None), values
