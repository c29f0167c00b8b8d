"""The guard of the head process: what it lets through, what it refuses, and that it never shows the token."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sundog.head import guard
from sundog.head.guard import BODY_MAX_BYTES, Guard

TOKEN = "a-token-of-24-characters"
HOST = {"host": "127.0.0.1:8265"}
BEARER = {**HOST, "authorization": f"Bearer {TOKEN}"}


class Client:
    """Sends one request through a guard to an app that answers with the length of the body."""

    def __init__(
        self, host: str = "127.0.0.1", token: str = TOKEN, open_prefixes: tuple[str, ...] = ()
    ) -> None:
        self.guard = Guard(self._app, token, host, open_prefixes)
        self.reached = False

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            self.reached = True
            await send({"type": "websocket.accept"})
            return
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        self.reached = True
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})

    def ask(
        self,
        path: str = "/api/version",
        headers: dict[str, str] | None = None,
        *,
        query: str = "",
        method: str = "GET",
        kind: str = "http",
        parts: tuple[bytes, ...] = (b"",),
    ) -> list[dict[str, Any]]:
        scope = {
            "type": kind,
            "path": path,
            "method": method,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        }
        waiting = [
            {"type": "http.request", "body": part, "more_body": at < len(parts) - 1}
            for at, part in enumerate(parts)
        ]
        sent: list[dict[str, Any]] = []

        async def receive() -> Any:
            return waiting.pop(0) if kind == "http" else {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self.guard(scope, receive, send))
        return sent

    def status(self, *args: Any, **kwargs: Any) -> int:
        return int(self.ask(*args, **kwargs)[0]["status"])


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_request_with_the_token_reaches_the_app(client: Client) -> None:
    assert client.status(headers=BEARER) == 200
    assert client.status(headers={**HOST, "x-ray-authorization": f"bearer {TOKEN}"}) == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (HOST, 401),
        ({**HOST, "authorization": "Bearer wrong"}, 403),
        ({**HOST, "authorization": "Bearer "}, 401),
        ({**HOST, "authorization": f"Basic {TOKEN}"}, 401),
        ({**HOST, "authorization": f"Bearer {TOKEN}\N{SNOWMAN}"}, 403),
        ({**HOST, "cookie": f"another={TOKEN}"}, 401),
        ({**HOST, "cookie": "\x00=;;"}, 401),
    ],
)
def test_a_request_without_the_token_is_refused(client: Client, headers: dict[str, str], status: int) -> None:
    assert client.status(headers=headers) == status
    assert not client.reached


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8265", "127.0.0.1.evil.example", "10.0.0.7", ""]
)
def test_a_host_that_is_not_ours_is_refused_even_with_the_token(client: Client, host: str) -> None:
    assert client.status(headers={**BEARER, "host": host}) == 403
    assert client.status("/api/healthz", {"host": host}) == 403
    assert not client.reached


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1", "[::1]:8265", "LOCALHOST", "127.0.0.2:80"])
def test_every_name_of_loopback_is_ours(client: Client, host: str) -> None:
    assert client.status(headers={**BEARER, "host": host}) == 200


def test_a_server_beyond_loopback_is_reached_by_addresses_and_by_its_own_name() -> None:
    client = Client(host="0.0.0.0")
    assert client.status(headers={**BEARER, "host": "10.0.0.7:8265"}) == 200
    assert client.status(headers={**BEARER, "host": "evil.example"}) == 403
    assert client.status(headers={"host": "10.0.0.7:8265"}) == 401


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "file://", "", "http://["]
)
def test_a_page_of_another_site_is_refused_even_with_the_cookie(client: Client, origin: str) -> None:
    assert client.status(headers={**BEARER, "origin": origin}, method="POST") == 403
    assert not client.reached


def test_our_own_page_may_ask(client: Client) -> None:
    assert client.status(headers={**BEARER, "origin": "http://127.0.0.1:8265"}, method="POST") == 200


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(client: Client) -> None:
    (start, _) = client.ask("/tasks", HOST, query=f"state=FAILED&token={TOKEN}")
    headers = dict(start["headers"])
    assert (start["status"], headers[b"location"]) == (303, b"/tasks?state=FAILED")
    assert headers[b"referrer-policy"] == b"no-referrer"
    cookie = headers[b"set-cookie"].decode()
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
    assert not client.reached
    assert client.status("/tasks", {**HOST, "cookie": f"other=1; {cookie.partition(';')[0]}"}) == 200


def test_the_token_in_the_address_leads_to_no_other_server(client: Client) -> None:
    (start, _) = client.ask("//evil.example/x", HOST, query=f"token={TOKEN}")
    assert dict(start["headers"])[b"location"] == b"/evil.example/x"


def test_the_token_in_the_address_changes_nothing_and_opens_no_socket(client: Client) -> None:
    assert client.status("/api/jobs/", HOST, query=f"token={TOKEN}", method="POST") == 401
    (closed,) = client.ask("/api/x", HOST, query=f"token={TOKEN}", kind="websocket")
    assert closed["type"] == "websocket.close"


def test_a_wrong_token_in_the_address_is_refused(client: Client) -> None:
    assert client.status("/", HOST, query="token=wrong") == 403


@pytest.mark.parametrize(
    "headers",
    [HOST, {**BEARER, "host": "evil.example"}, {**BEARER, "origin": "http://evil.example"}],
)
def test_a_websocket_that_is_not_ours_is_closed_before_it_opens(
    client: Client, headers: dict[str, str]
) -> None:
    (closed,) = client.ask("/api/jobs/x/logs/tail", headers, kind="websocket")
    assert closed["type"] == "websocket.close" and not client.reached


def test_a_websocket_with_the_token_opens(client: Client) -> None:
    (opened,) = client.ask("/api/jobs/x/logs/tail", BEARER, kind="websocket")
    assert opened["type"] == "websocket.accept"


@pytest.mark.parametrize("length", [str(BODY_MAX_BYTES + 1), "-1", "1e9", "٣"])
def test_a_body_that_says_it_is_too_large_is_refused(client: Client, length: str) -> None:
    assert client.status(headers={**BEARER, "content-length": length}, method="POST") == 413
    assert not client.reached


def test_a_body_that_turns_out_too_large_is_refused(client: Client) -> None:
    part = b"x" * (1 << 20)
    parts = (part,) * (BODY_MAX_BYTES // len(part) + 1)
    assert client.status(headers=BEARER, method="POST", parts=parts) == 413
    assert not client.reached
    assert client.status("/api/packages/gcs/x.zip", BEARER, method="PUT", parts=parts) == 200


def test_whether_anybody_is_there_and_static_files_need_no_token() -> None:
    client = Client(open_prefixes=("/static/",))
    assert client.status("/api/healthz", HOST) == 200
    assert client.status("/static/x.js", HOST) == 200
    assert client.status("/staticx", HOST) == 401


def test_no_refusal_shows_the_token(client: Client) -> None:
    for headers in (HOST, {**BEARER, "host": "evil"}, {**HOST, "authorization": f"Bearer {TOKEN}x"}):
        assert TOKEN.encode() not in b"".join(
            repr(message).encode() for message in client.ask("/api/v0/tasks", headers)
        )


def test_every_answer_forbids_frames_and_guesses_of_its_type(client: Client) -> None:
    for headers in (HOST, BEARER):
        names = dict(client.ask(headers=headers)[0]["headers"])
        assert names[b"x-frame-options"] == b"DENY"
        assert names[b"x-content-type-options"] == b"nosniff"


def test_what_is_no_request_passes(client: Client) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(Guard(app, TOKEN, "127.0.0.1")({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]


def test_a_header_given_twice_is_no_way_around(client: Client) -> None:
    scope_headers = {**BEARER, "origin": "http://127.0.0.1:8265"}
    assert client.status(headers=scope_headers) == 200
    found = guard._headers_of(
        {"headers": [(b"origin", b"http://127.0.0.1:8265"), (b"origin", b"http://evil")]}
    )
    assert found[b"origin"] == b"http://127.0.0.1:8265, http://evil"


@pytest.mark.parametrize("hosts", [("evil.example", "127.0.0.1:8265"), ("127.0.0.1:8265", "evil.example")])
def test_a_request_with_two_hosts_is_refused_whichever_comes_last(
    client: Client, hosts: tuple[str, str]
) -> None:
    assert client.status(headers={**BEARER, "host": ", ".join(hosts)}) == 400
