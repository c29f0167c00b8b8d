"""Models of a replica: the one not asked for longest goes, and all go when the replica ends."""

from __future__ import annotations

import asyncio

from sundog import serve
from sundog.serve.multiplex import unload_all

ended: list[str] = []


class Model:
    """A model that has to be told that it ends."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def __del__(self) -> None:
        ended.append(self.name)


class Home:
    """A deployment with models."""

    @serve.multiplexed(max_num_models_per_replica=2)
    async def load(self, model_id: str) -> Model:
        return Model(model_id)


def test_every_model_is_told_that_it_ends() -> None:
    async def main() -> None:
        home, other = Home(), Home()
        await other.load("other")
        for name in ("a", "b", "a", "c"):
            await home.load(name)
        assert ended == ["b"]
        await unload_all(home)
        assert ended == ["b", "a", "c"]
        await unload_all(other)

    ended.clear()
    asyncio.run(main())
    assert ended == ["b", "a", "c", "other"]
