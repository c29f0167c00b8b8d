"""A driver that runs for weeks: whatever it makes and drops, over and over, leaves nothing in its tables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from sundog import engines
from tests.integration.gates import await_file, await_true

GET_S = 30


def owner_of_driver() -> Any:
    """The owner of this process."""
    engine = engines.current()
    assert engine is not None
    return engine.owner


# ---------------------------------------------------------------------- generators
def test_a_generator_that_is_dropped_while_it_runs_is_forgotten(ray: ModuleType, tmp_path: Path) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        yield 1
        await_file(tmp_path / "never")
        yield 2

    generator = source.remote()
    ray.get(next(generator), timeout=GET_S)
    assert len(owner_of_driver().streams.streams) == 1
    del generator
    await_true(lambda: not owner_of_driver().streams.streams, "an empty table of generators")


def test_giving_up_on_an_item_again_and_again_leaves_nobody_to_be_woken(
    ray: ModuleType, tmp_path: Path
) -> None:
    @ray.remote
    def source() -> Iterator[int]:
        await_file(tmp_path / "go")
        yield 1

    async def poll() -> Any:
        generator = source.remote()
        for _ in range(20):
            try:
                await asyncio.wait_for(anext(generator), 0.001)
            except TimeoutError:
                continue
        (stream,) = owner_of_driver().streams.streams.values()
        left = len(stream.wakers)
        (tmp_path / "go").touch()
        return left, ray.get(await anext(generator), timeout=GET_S)

    assert asyncio.run(poll()) == (0, 1)
