"""Stages of a request: completed on the loop that sent it, read on any."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from sundog.serve.stages import LoopStage, awaitable


def test_a_stage_of_this_loop_is_awaited_without_another_thread_and_may_be_given_up() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        stage = LoopStage(loop)
        answer.add_done_callback(stage.complete)
        first, second = awaitable(stage), awaitable(stage)
        first.cancel()  # its reader has gone; the request goes on
        answer.set_result("done")
        assert await second == "done" and stage.result() == "done"

    asyncio.run(scene())


def test_a_stage_of_another_thread_is_awaited_too() -> None:
    async def scene() -> None:
        stage: Future[Any] = Future()
        waiting = awaitable(stage)
        stage.set_exception(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await waiting

    asyncio.run(scene())
