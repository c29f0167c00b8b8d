"""Batches, in an event loop of the test's own."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from sundog import serve
from sundog.serve.imports import dumps


def test_calls_at_the_same_time_make_one_batch_and_a_full_one_does_not_wait() -> None:
    @serve.batch(max_batch_size=3, batch_wait_timeout_s=60)
    async def double(values: list[int]) -> list[Any]:
        return [(each * 2, len(values)) for each in values]

    async def main() -> list[Any]:
        return await asyncio.gather(*(double(each) for each in range(3)))

    assert asyncio.run(main()) == [(0, 3), (2, 3), (4, 3)]


def test_a_lonely_call_waits_no_longer_than_it_should() -> None:
    @serve.batch(max_batch_size=100, batch_wait_timeout_s=0.01)
    async def count(values: list[int]) -> list[int]:
        return [len(values)] * len(values)

    assert asyncio.run(count(1)) == 1


def test_an_error_is_everybodys_and_a_wrong_length_is_one() -> None:
    @serve.batch(max_batch_size=2, batch_wait_timeout_s=0)
    async def fail(values: list[int]) -> list[int]:
        raise KeyError("no")

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=0)
    async def short(values: list[int]) -> list[int]:
        return []

    with pytest.raises(KeyError):
        asyncio.run(fail(1))
    with pytest.raises(serve.exceptions.RayServeException, match="got 1 values and returned 0"):
        asyncio.run(short(1))


def test_a_generator_hands_each_call_its_items() -> None:
    @serve.batch(max_batch_size=2, batch_wait_timeout_s=60)
    async def count(limits: list[int]) -> Any:
        for step in range(max(limits)):
            yield [step if step < limit else StopIteration for limit in limits]

    async def collect(limit: int) -> list[int]:
        return [each async for each in count(limit)]

    async def main() -> list[list[int]]:
        return list(await asyncio.gather(collect(1), collect(3)))

    assert asyncio.run(main()) == [[0], [0, 1, 2]]


def test_a_batched_function_can_be_copied_into_another_process() -> None:
    @serve.batch(max_batch_size=1)
    async def same(values: list[int]) -> list[int]:
        return values

    assert asyncio.run(pickle.loads(dumps(same))(7)) == 7


def test_wrong_options_are_told() -> None:
    with pytest.raises(TypeError, match="async def"):
        serve.batch(lambda values: values)
    with pytest.raises(ValueError, match="max_batch_size"):
        serve.batch(max_batch_size=0)
    with pytest.raises(TypeError, match="batch_wait_timeout_s"):
        serve.batch(batch_wait_timeout_s="long")  # type: ignore[arg-type]


def test_a_batch_has_requests_for_one_model() -> None:
    from sundog.serve.context import RequestContext, request_context

    @serve.batch(max_batch_size=6, batch_wait_timeout_s=60)
    async def predict(values: list[int]) -> list[Any]:
        await asyncio.sleep(0)
        return [(serve.get_multiplexed_model_id(), sorted(values))] * len(values)

    async def ask(value: int) -> Any:
        request_context.set(RequestContext(multiplexed_model_id="ab"[value % 2]))
        return await predict(value)

    async def main() -> list[Any]:
        return await asyncio.gather(*(asyncio.create_task(ask(each)) for each in range(6)))

    assert asyncio.run(main()) == [("a", [0, 2, 4]), ("b", [1, 3, 5])] * 3


def test_a_value_that_is_larger_than_a_batch_may_be_is_refused() -> None:
    @serve.batch(max_batch_size=10, batch_wait_timeout_s=0, batch_size_fn=sum)
    async def same(values: list[int]) -> list[int]:
        return values

    async def main() -> None:
        assert await same(10) == 10
        with pytest.raises(RuntimeError, match="size 11"):
            await same(11)

    asyncio.run(main())
