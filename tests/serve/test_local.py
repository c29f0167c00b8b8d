"""Local testing mode: no session at all."""

from __future__ import annotations

from typing import Any

import pytest

import sundog
from sundog import serve


def test_an_application_runs_in_the_callers_process() -> None:
    @serve.deployment
    class Inner:
        def add(self, value: int) -> int:
            return value + 1

        def count(self, to: int) -> Any:
            yield from range(to)

    @serve.deployment
    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __call__(self, value: int) -> int:
            return int(await self.inner.add.remote(self.inner.add.remote(value)))

        async def items(self) -> list[int]:
            return [each async for each in self.inner.count.options(stream=True).remote(2)]

        def fail(self) -> None:
            raise KeyError("no")

    handle = serve.run(Outer.bind(Inner.bind()), _local_testing_mode=True)
    assert handle.remote(1).result() == 3
    assert handle.items.remote().result() == [0, 1]
    with pytest.raises(KeyError):
        handle.fail.remote().result()
    assert not sundog.is_initialized()
    serve.shutdown()


def test_each_replica_is_itself_while_others_run_and_the_caller_is_none() -> None:
    @serve.deployment
    class Inner:
        async def name(self) -> str:
            return serve.get_replica_context().deployment

    @serve.deployment
    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __call__(self) -> list[str]:
            before = serve.get_replica_context().deployment
            return [before, await self.inner.name.remote(), serve.get_replica_context().deployment]

    handle = serve.run(Outer.bind(Inner.bind()), _local_testing_mode=True)
    assert handle.remote().result() == ["Outer", "Inner", "Outer"]
    with pytest.raises(serve.exceptions.RayServeException, match="runs in no replica"):
        serve.get_replica_context()
    serve.shutdown()
