"""Futures of asyncio: what they become. Awaiting with real processes: tests/integration/test_awaits.py."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from sundog.owner.awaits import copy_result, set_error


def test_a_future_becomes_what_another_has_become_unless_it_was_given_up() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        done: Future[Any] = Future()
        done.set_result(3)
        failed: Future[Any] = Future()
        failed.set_exception(ValueError("no"))
        value, error, given_up = (loop.create_future() for _ in range(3))
        given_up.cancel()
        copy_result(done, value)
        copy_result(failed, error)
        copy_result(done, given_up)
        assert await value == 3 and given_up.cancelled()
        with pytest.raises(ValueError, match="no"):
            await error

    asyncio.run(scene())


def test_an_error_that_would_end_the_coroutine_silently_is_wrapped() -> None:
    class Stops(StopIteration):
        pass

    async def scene() -> None:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        set_error(future, Stops("over"))
        with pytest.raises(RuntimeError, match="Stops: over") as caught:
            await future
        assert isinstance(caught.value.__cause__, Stops)

    asyncio.run(scene())
