"""Help for tests of Serve: a Serve on a free port, and plain HTTP against it."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from typing import Any

import sundog
from sundog import serve
from sundog.serve import client


def start(**http_options: Any) -> int:
    """Start Serve on a port that nobody uses; returns the port."""
    serve.start(http_options={"port": 0, **http_options})
    return port()


def port() -> int:
    """Where Serve listens."""
    found: int = sundog.get(client.connect().controller.ready.remote())[1]
    return found


def get(
    path: str, at: int, method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """One request: status, text and headers of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", at, timeout=120)
    try:
        connection.request(
            method, path, body, {key.replace("_", "-"): value for key, value in headers.items()}
        )
        answer = connection.getresponse()
        return (
            answer.status,
            answer.read().decode(),
            {key.lower(): value for key, value in answer.getheaders()},
        )
    finally:
        connection.close()


def eventually(check: Callable[[], object], timeout_s: float = 120) -> None:
    """Wait until something holds; what it raises meanwhile counts as no."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if check():
                return
        except Exception:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, f"{check} never held"
        time.sleep(0.02)
