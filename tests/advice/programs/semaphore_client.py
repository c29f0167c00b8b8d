"""Eight requests may be under way at a time, and the program awaits one after the other."""

import asyncio
import time

import sundog as ray


@ray.remote
def fetch(url):
    time.sleep(0.06)
    return len(url)


class Client:
    def __init__(self, at_a_time):
        self.limit = asyncio.Semaphore(at_a_time)
        self.sizes = {}

    async def one(self, url):
        async with self.limit:
            self.sizes[url] = await fetch.remote(url)  # fault: get-in-loop

    async def all(self, urls):
        for url in urls:
            await self.one(url)
        return sum(self.sizes.values())


async def main():
    print(await Client(8).all([f"u{n}" for n in range(24)]))


ray.init(num_cpus=4)
asyncio.run(main())
