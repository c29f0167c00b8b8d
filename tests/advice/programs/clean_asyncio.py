"""A program without a fault: nothing may be found in it. Run by tests/advice/table.py."""

import asyncio
import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


async def one(x):
    return await nap.remote(await nap.remote(x))


async def main():
    return await asyncio.gather(*[one(x) for x in range(8)])


asyncio.run(main())
