"""A fold is trained as soon as it is split."""

import asyncio
import time

import sundog as ray


@ray.remote
def split(fold):
    time.sleep(0.5 if fold == 0 else 0.05)
    return list(range(fold * 100, fold * 100 + 100))


@ray.remote
def fit(rows):
    time.sleep(0.1)
    return sum(rows)


async def folds(count):
    parts = [split.remote(fold) for fold in range(count)]
    fitted = [fit.remote(rows) for rows in parts]
    return sum(await asyncio.gather(*fitted))


ray.init(num_cpus=4)
print(asyncio.run(folds(16)))
