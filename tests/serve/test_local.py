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
