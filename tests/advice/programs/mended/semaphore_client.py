"""The twin of semaphore_client: mended."""

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
            self.sizes[url] = await fetch.remote(url)

    async def all(self, urls):
        await asyncio.gather(*[self.one(url) for url in urls])
        return sum(self.sizes.values())


async def main():
    print(await Client(8).all([f"u{n}" for n in range(24)]))


ray.init(num_cpus=4)
asyncio.run(main())
