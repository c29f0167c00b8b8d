"""An asyncio program: 1,500 requests, 32 at a time, each of two tasks in turn. Runs in driver and workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

_REQUESTS = 1_500
_AT_A_TIME = 32


def look_up(user: int) -> dict[str, int]:
    return {"user": user, "score": sum(step * user & 0xFF for step in range(300))}


def render(record: dict[str, int]) -> int:
    return record["score"] * 3 + record["user"]


Ask = Callable[[int], Awaitable[int]]


async def _serve(ask: Ask) -> int:
    gate = asyncio.Semaphore(_AT_A_TIME)

    async def request(user: int) -> int:
        async with gate:
            return await ask(user)

    return sum(await asyncio.gather(*[request(user) for user in range(_REQUESTS)]))


def serial() -> int:
    return sum(render(look_up(user)) for user in range(_REQUESTS))


def raylike(ray: Any) -> int:
    first, second = ray.remote(look_up), ray.remote(render)

    async def ask(user: int) -> int:
        return int(await second.remote(await first.remote(user)))

    return asyncio.run(_serve(ask))


def futures(executor: Any) -> int:
    async def ask(user: int) -> int:
        loop = asyncio.get_running_loop()
        record = await loop.run_in_executor(executor, look_up, user)
        return await loop.run_in_executor(executor, render, record)

    return asyncio.run(_serve(ask))
