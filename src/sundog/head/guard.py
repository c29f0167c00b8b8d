"""The check of every client of the head process: every request and every WebSocket passes here first.

::

    request ──► Host is ours ──► Origin is ours ──► token ──► body not too large ──► app

Owns the checks, their order and their answers, and the headers that every answer gets. A page of another site can make
a browser send requests to 127.0.0.1: its Origin gives it away. A name that an attacker's DNS points at 127.0.0.1 makes
the browser think that the page is ours: its Host gives it away. The token keeps out other users of this machine.
Refuses to say more than what is wrong: no answer and no log line has the token in it. Pure ASGI; runs in the head
process' event loop; keeps nothing.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import socket
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "sundog-token"
BODY_MAX_BYTES = 8 << 20
PACKAGE_MAX_BYTES = 1 << 30
_PACKAGES = "/api/packages/"
# Paths that need no token: whether the server is alive.
OPEN_PATHS = frozenset({"/api/healthz", "/api/gcs_healthz", "/api/local_raylet_healthz", "/favicon.ico"})
_POLICY_VIOLATION = 1008  # of a WebSocket's close frame
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)
_MISSING = (
    "This address needs a token. Open the address that `sundog dashboard` prints, or send the header "
    "`Authorization: Bearer TOKEN`; Ray's clients send it with RAY_AUTH_MODE=token RAY_AUTH_TOKEN=TOKEN."
)


class RefusedRequest(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Guard:
    """Wraps an ASGI app.

    Args:
        app: what is behind it.
        token: what clients must show.
        host: the address that the server listens on; others than loopback may also be reached by this machine's name.
        open_prefixes: paths that begin so need no token: static files of the page.
    """

    def __init__(self, app: ASGIApp, token: str, host: str, open_prefixes: Iterable[str] = ()) -> None:
        self.app = app
        self.host = host
        self.open_prefixes = tuple(open_prefixes)
        self._token = token.encode()
        self._names = _own_names(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = _headers_of(scope)
        try:
            self._check_host(headers)
            self._check_origin(headers)
            moved = self._check_token(scope, headers)
            limit = _limit_of(scope)
            _check_length(headers, limit)
        except RefusedRequest as refused:
            await _refuse(scope, receive, send, refused)
            return
        if moved is not None:
            await _redirect(send, moved, self._cookie())
            return
        await self._pass_on(scope, receive, send, limit)

    # ------------------------------------------------------------------ checks
    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        named = headers.get(b"host", b"").decode("latin-1")
        if "," in named:  # a header that is there twice: the app behind might believe the other one
            raise RefusedRequest(400, "The request has more than one Host header.")
        host = _host_name(named)
        if host in self._names:
            return
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            address = None
        # An address cannot be rebound by a DNS server; a name can.
        if address is not None and (address.is_loopback or not self._is_loopback()):
            return
        raise RefusedRequest(403, "The Host header of the request names another host.")

    def _is_loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        origin = headers.get(b"origin")
        if origin is None:
            return
        host = headers.get(b"host", b"")
        if origin in (b"http://" + host, b"https://" + host):
            return
        raise RefusedRequest(403, "The request comes from a page of another web site.")

    def _check_token(self, scope: Scope, headers: dict[bytes, bytes]) -> str | None:
        """Whether the token is shown; returns the address without it if it was in the address."""
        path = scope["path"]
        if path in OPEN_PATHS or (self.open_prefixes and path.startswith(self.open_prefixes)):
            return None
        moved: str | None = None
        shown = _bearer_of(headers) or _cookie_of(headers, self._cookie_name())
        if shown is None and scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            shown = next((value for name, value in query if name == "token"), None)
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            moved = _local(path) + (f"?{rest}" if rest else "")
        if shown is None:
            raise RefusedRequest(401, _MISSING)
        if not self.is_token(shown):
            raise RefusedRequest(
                403, "The token is wrong: it belongs to another session, or to one that has ended."
            )
        return moved

    def is_token(self, shown: str) -> bool:
        """Whether this is the token, compared in the same time for every text."""
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self._token)

    # ------------------------------------------------------------------ answers
    def _cookie_name(self) -> str:
        # A browser keeps one set of cookies for all ports of a host.
        return f"{COOKIE}-{hmac.new(self._token, b'cookie', 'sha256').hexdigest()[:8]}"

    def _cookie(self) -> bytes:
        return f"{self._cookie_name()}={self._token.decode()}; HttpOnly; SameSite=Lax; Path=/".encode()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        if scope["type"] == "websocket":
            await self.app(scope, receive, send)
            return
        began = False
        seen = 0
        too_large = RefusedRequest(413, _too_large(limit))

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise too_large
            return message

        async def marked(message: Message) -> None:
            nonlocal began
            if seen > limit and not began:
                return  # what the app makes of the refusal
            if message["type"] == "http.response.start":
                began = True
                names = {name.lower() for name, _ in message.get("headers", ())}
                more = [pair for pair in _HEADERS if pair[0] not in names]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        with contextlib.suppress(RefusedRequest):
            await self.app(scope, counted, marked)
        if seen > limit and not began:
            await _refuse(scope, receive, send, too_large)


def _headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers by name; one that must not be there twice, and is, counts as wrong."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in found:
            found[name] += (b"; " if name == b"cookie" else b", ") + value
        else:
            found[name] = value
    return found


def _own_names(host: str) -> frozenset[str]:
    names = {"localhost", host.lower()}
    if host not in ("127.0.0.1", "::1", "localhost"):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(names)


def _host_name(header: str) -> str:
    """The name in a Host header, without the port.

    >>> _host_name("LocalHost:8265"), _host_name("[::1]:80"), _host_name("evil.example")
    ('localhost', '::1', 'evil.example')
    """
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _bearer_of(headers: dict[bytes, bytes]) -> str | None:
    for name in (b"authorization", b"x-ray-authorization"):
        kind, _, token = headers.get(name, b"").decode("latin-1").partition(" ")
        if kind.lower() == "bearer" and token.strip():
            return token.strip()
    return None


def _cookie_of(headers: dict[bytes, bytes], name: str) -> str | None:
    raw = headers.get(b"cookie")
    if raw is None:
        return None
    try:
        found = SimpleCookie(raw.decode("latin-1")).get(name)
    except CookieError:
        return None
    return found.value if found is not None else None


def _local(path: str) -> str:
    """A path to be sent to, on this server: `//evil.example` would be another one."""
    return "/" + path.lstrip("/\\").replace("\r", "").replace("\n", "")


def _limit_of(scope: Scope) -> int:
    return PACKAGE_MAX_BYTES if scope["path"].startswith(_PACKAGES) else BODY_MAX_BYTES


def _check_length(headers: dict[bytes, bytes], limit: int) -> None:
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > limit:
        raise RefusedRequest(413, _too_large(limit))


def _too_large(limit: int) -> str:
    return f"The body of this request is too large: at most {limit} bytes are taken."


async def _refuse(scope: Scope, receive: Receive, send: Send, refused: RefusedRequest) -> None:
    if scope["type"] == "websocket":
        await receive()  # websocket.connect; closing before accepting makes the server answer 403
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": refused.text[:100]})
        return
    body = refused.text.encode()
    if scope["path"].startswith("/api/v0/"):
        body = json.dumps({"result": False, "msg": refused.text, "data": {}}).encode()
    await _answer(send, refused.status, body, (b"connection", b"close"))


async def _redirect(send: Send, where: str, cookie: bytes) -> None:
    await _answer(
        send,
        303,
        b"",
        (b"location", where.encode("latin-1", "replace")),
        (b"set-cookie", cookie),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-store"),
    )


async def _answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    given = {name for name, _ in headers}
    every = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *headers,
        *(pair for pair in _HEADERS if pair[0] not in given),
    ]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": body})
