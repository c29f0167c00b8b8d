"""The head process' application in this process, over a session that has ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from sundog.engines.heads import HeadInfo
from sundog.head.app import make_app
from sundog.observe.sessions import Opened
from sundog.store import folders

INFO = HeadInfo("127.0.0.1", 8265, "t" * 32)
Ask = Callable[..., httpx.Response]


@pytest.fixture
def ended(tmp_path: Path) -> Opened:
    """A session that has ended, and left nothing but its folder."""
    tmp_path.chmod(0o700)
    for part in ("logs", "rings"):
        (tmp_path / part).mkdir(mode=0o700)
    os.close(folders.make_lock(str(tmp_path)))
    return Opened("session_1", str(tmp_path))


@pytest.fixture
def ask(ended: Opened) -> Ask:
    """Sends one request with the token to the application: `ask("/api/version")`."""

    def send(path: str, method: str = "GET", **how: Any) -> httpx.Response:
        async def talk() -> httpx.Response:
            app = make_app(ended, INFO)
            transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
            bearer = {"authorization": f"Bearer {INFO.token}"}
            async with httpx.AsyncClient(transport=transport, base_url=INFO.url, headers=bearer) as client:
                try:
                    return await client.request(method, path, **how)
                finally:
                    await app.app.state.desk.close()  # type: ignore[attr-defined]

        return asyncio.run(talk())

    return send
