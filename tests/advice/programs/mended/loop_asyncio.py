"""The mended twin of loop_asyncio.py."""

import asyncio
import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


async def main():
    return await asyncio.gather(*[nap.remote(x) for x in range(8)])


asyncio.run(main())
