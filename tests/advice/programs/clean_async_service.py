"""An asyncio actor that waits for a slow backend, many calls at a time."""

import asyncio

import sundog as ray


@ray.remote
class Backend:
    def __init__(self):
        self.calls = 0

    async def query(self, n):
        self.calls += 1
        await asyncio.sleep(0.2)
        return n * 2


async def main():
    backend = Backend.remote()
    found = []
    for wave in range(4):
        found += await asyncio.gather(*[backend.query.remote(wave * 50 + n) for n in range(50)])
        if sum(found) > 10**6:
            break
    print(sum(found))


if __name__ == "__main__":
    ray.init(num_cpus=2)
    asyncio.run(main())
