"""Thumbnails are awaited in the order in which they were asked for, and each is uploaded."""

import asyncio
import time

import sundog as ray


@ray.remote
def thumbnail(n):
    time.sleep(1.3 if n == 0 else 0.2)
    return n, b"\x00" * 64


async def upload(n, data):
    await asyncio.sleep(0.1)
    return len(data)


async def main():
    refs = [thumbnail.remote(n) for n in range(10)]
    sent = 0
    for ref in refs:
        n, data = await ref  # fault: get-in-order
        sent += await upload(n, data)
    print(sent)


if __name__ == "__main__":
    ray.init(num_cpus=5)
    asyncio.run(main())
