"""A proxy knows the routes before it accepts its first connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, cast

from sundog.serve.config import HTTPOptions
from sundog.serve.proxy import ProxyActor
from sundog.serve.rows import Route
from sundog.serve.schema import LoggingConfig


class Told:
    """Stands for the connection to a controller that tells the routes when it is asked, in the same loop."""

    routers: dict[object, object] = {}

    async def follow(self, _key: object) -> AsyncIterator[list[Route]]:
        await asyncio.sleep(0)
        yield [Route("/shop", "shop", "Model")]

    def run(self, coro: Coroutine[object, object, None]) -> asyncio.Task[None]:
        self.task = asyncio.ensure_future(coro)
        return self.task

    def router(self, _deployment: object) -> object:
        return None


def test_a_proxy_that_starts_waits_for_the_routes_of_applications_that_came_meanwhile() -> None:
    async def scene() -> Route | None:
        proxy = ProxyActor(0, HTTPOptions(), "", "", LoggingConfig())
        proxy._app.client = cast(Any, Told())
        await proxy._follow(cast(Any, proxy._app.client))
        return proxy._app.match("/shop/list")

    found = asyncio.run(scene())
    assert found is not None and found.app_name == "shop"
