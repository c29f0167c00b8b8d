"""A real head process is attacked by HTTP: each attack is refused, and the token is not found anywhere."""

from __future__ import annotations

import asyncio
import http.client
from pathlib import Path

import httpx
import pytest
import websockets

from sundog.head.guard import BODY_MAX_BYTES
from tests.integration.head.conftest import Head


def _status(
    head: Head, path: str, headers: dict[str, str] | None = None, method: str = "GET", body: bytes = b""
) -> int:
    """The status of one raw request: an http client would mend the headers."""
    connection = http.client.HTTPConnection("127.0.0.1", head.info.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        return connection.getresponse().status
    finally:
        connection.close()


async def _open_socket(url: str, headers: dict[str, str]) -> None:
    async with websockets.connect(url, additional_headers=headers, open_timeout=60):
        pass


def test_what_strangers_send_is_refused_and_the_token_is_nowhere(head: Head) -> None:
    bearer = {"Authorization": f"Bearer {head.info.token}"}
    assert _status(head, "/api/version", bearer) == 200
    assert _status(head, "/api/version") == 401
    assert _status(head, "/api/version", {"Authorization": "Bearer wrong"}) == 403
    assert _status(head, "/api/version", {"Host": "evil.example", **bearer}) == 403
    assert _status(head, "/api/version", {"Origin": "https://evil.example", **bearer}) == 403
    assert _status(head, "/api/jobs/", {"Origin": "null", **bearer}, "POST", b"{}") == 403
    large = {"Content-Length": str(BODY_MAX_BYTES + 1)}
    assert _status(head, "/api/jobs/", {**large, **bearer}, "POST") == 413
    assert _status(head, "/?token=wrong") == 403

    socket_url = f"ws://127.0.0.1:{head.info.port}/api/jobs/x/logs/tail"
    for headers in ({}, {"Authorization": "Bearer wrong"}, {**bearer, "Origin": "http://evil.example"}):
        with pytest.raises(websockets.InvalidStatus) as refused:
            asyncio.run(_open_socket(socket_url, headers))
        assert refused.value.response.status_code == 403

    # A body without a length that grows and grows.
    def endless() -> object:
        for _ in range(BODY_MAX_BYTES // (1 << 20) + 2):
            yield b"x" * (1 << 20)

    try:
        answer = head.client.post("/api/jobs/", content=endless())  # type: ignore[arg-type]
        assert answer.status_code == 413
    except (httpx.WriteError, httpx.RemoteProtocolError):
        pass  # the server answered and closed before all of it was sent

    _search_for_token(head)


def _search_for_token(head: Head) -> None:
    token = head.info.token.encode()
    folder = Path(head.session.path)
    with_token = [path for path in folder.rglob("*") if token in _bytes_of(path)]
    # For this user's own clients, and for Prometheus, which reads it from a file.
    assert {str(path.relative_to(folder)) for path in with_token} <= {"head.json", "metrics/token"}
    assert {path.stat().st_mode & 0o777 for path in with_token} == {0o600}
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if token in _bytes_of(path)]


def _bytes_of(path: Path) -> bytes:
    """What is in a file; nothing if it is none, or has just gone."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
