"""An asyncio program gathers calls of several actors."""

import asyncio

import sundog


@sundog.remote
class Sensor:
    def __init__(self, n):
        self.n = n

    async def read(self):
        await asyncio.sleep(0.05)
        return self.n


async def main():
    sensors = [Sensor.remote(n) for n in range(4)]
    for _ in range(8):
        await asyncio.gather(*(sensor.read.remote() for sensor in sensors))


sundog.init(num_cpus=4)
asyncio.run(main())
