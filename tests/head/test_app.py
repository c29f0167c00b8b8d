"""The application as a whole: all parts behind one guard."""

from __future__ import annotations

import asyncio
from typing import Any

from sundog.head.app import make_app
from sundog.head.guard import Guard
from sundog.observe.sessions import Opened
from tests.head.conftest import INFO, Ask


def test_everything_is_behind_the_guard(ended: Opened) -> None:
    assert isinstance(make_app(ended, INFO), Guard)


def test_an_address_of_the_interface_that_is_not_there_is_404_with_json(ask: Ask) -> None:
    answer = ask("/api/no/such/thing")
    assert answer.status_code == 404 and answer.json()["result"] is False


def test_the_application_begins_and_ends_with_its_server(ended: Opened) -> None:
    heard: list[str] = []

    async def live() -> None:
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            heard.append(message["type"])

        await make_app(ended, INFO)({"type": "lifespan"}, receive, send)

    asyncio.run(live())
    assert heard == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
