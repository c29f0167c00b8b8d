"""A program with a planted fault: get-in-loop. Run by tests/advice/table.py."""

import asyncio
import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


async def main():
    out = []
    for x in range(8):
        out.append(await nap.remote(x))  # fault: get-in-loop
    return out


asyncio.run(main())
