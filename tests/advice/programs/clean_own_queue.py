"""An asyncio actor holds results for their reader, who takes each as soon as it is there."""

import asyncio
import time

import sundog as ray


@ray.remote
class Buffer:
    def __init__(self, room):
        self.items = asyncio.Queue(room)

    async def put(self, item):
        await self.items.put(item)

    async def take(self):
        return await self.items.get()


@ray.remote
def produce(buffer, first):
    for number in range(first, first + 12):
        time.sleep(0.06)
        ray.get(buffer.put.remote(number))


def main():
    ray.init(num_cpus=3)
    buffer = Buffer.remote(4)
    for first in (0, 100):
        produce.remote(buffer, first)
    total = 0
    for _ in range(24):
        total += ray.get(buffer.take.remote())
    print(total)


if __name__ == "__main__":
    main()
