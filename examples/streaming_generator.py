"""Results that arrive while the task is still running.

A remote generator yields one object at a time. The driver handles the first while the task makes the next, an
asyncio program awaits them, and whoever has seen enough simply stops.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import numpy as np
import ray

BLOCKS = 6
ROWS = 20_000


@ray.remote(num_returns="streaming")
def read_blocks(blocks: int) -> Iterator[np.ndarray]:
    for block in range(blocks):
        yield np.random.default_rng(block).normal(loc=block, size=(ROWS, 2))


@ray.remote
def column_means(block: np.ndarray) -> list[float]:
    return [round(float(mean), 2) for mean in block.mean(axis=0)]


@ray.remote
class Ticker:
    """A generator as an actor's method, in an asyncio actor."""

    async def ticks(self, count: int) -> AsyncIterator[str]:
        for tick in range(count):
            await asyncio.sleep(0)
            yield f"tick {tick}"


@ray.remote
def count_down(start: int) -> Iterator[int]:
    """No num_returns: a generator function streams by default."""
    for number in range(start, -1, -1):
        if number == 2:
            raise ValueError("stopped at two")
        yield number


async def follow(ticker: "ray.actor.ActorHandle") -> list[str]:
    return [await ref async for ref in ticker.ticks.options(num_returns="streaming").remote(4)]


def main() -> None:
    ray.init()
    # Each block goes on to the next task as a reference: the driver never holds one.
    means = [column_means.remote(ref) for ref in read_blocks.remote(BLOCKS)]
    for block, mean in enumerate(ray.get(means)):
        print(f"block {block}: {mean}")

    endless = read_blocks.options(_generator_backpressure_num_objects=2).remote(1_000_000)
    first = [ray.get(next(endless)).shape for _ in range(3)]
    del endless
    print(f"three of a million: {first}")

    print(asyncio.run(follow(Ticker.remote())))

    numbers = []
    try:
        for ref in count_down.remote(5):
            numbers.append(ray.get(ref))
    except ray.exceptions.RayTaskError as error:
        # It is the user's ValueError and a RayTaskError at once; the original is its cause.
        print(f"{numbers}, then {error.cause!r}")
    ray.shutdown()


if __name__ == "__main__":
    main()
