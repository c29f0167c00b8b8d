"""The constructor of an asyncio actor runs inside a loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from sundog.worker.async_start import make_in_loop


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def test_a_plain_constructor_sees_the_loop_and_may_start_tasks_in_it(loop: asyncio.AbstractEventLoop) -> None:
    class Actor:
        def __init__(self, start: int, *, step: int) -> None:
            self.loop = asyncio.get_running_loop()
            self.task = asyncio.create_task(self.count(start + step))

        async def count(self, number: int) -> int:
            return number

    made: Any = make_in_loop(Actor, (1,), {"step": 2}, loop)
    assert made.loop is loop
    assert loop.run_until_complete(made.task) == 3


@pytest.mark.parametrize("own_loop", [True, False])
def test_a_constructor_that_is_a_coroutine_is_awaited(
    loop: asyncio.AbstractEventLoop, own_loop: bool
) -> None:
    class Actor:
        async def __init__(self) -> None:  # type: ignore[misc]
            await asyncio.sleep(0)
            self.done = True

    made: Any = make_in_loop(Actor, (), {}, loop if own_loop else None)
    assert made.done


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_what_the_constructor_raises_comes_out_and_the_loop_goes_on(
    loop: asyncio.AbstractEventLoop, raised: BaseException
) -> None:
    class Actor:
        def __init__(self) -> None:
            raise raised

    with pytest.raises(type(raised)) as caught:
        make_in_loop(Actor, (), {}, loop)
    assert caught.value is raised

    async def after() -> Any:
        return sys

    assert loop.run_until_complete(after()) is sys
