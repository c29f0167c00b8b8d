"""An asyncio actor answers questions with a blocking client."""

import asyncio

import sundog


@sundog.remote
class Api:
    def __init__(self, latency):
        self.latency = latency
        self.asked = 0

    async def ask(self, question):
        self.asked += 1
        await asyncio.sleep(self.latency)
        return len(question)


sundog.init(num_cpus=2)
api = Api.remote(0.05)
print(sum(sundog.get([api.ask.remote("?" * n) for n in range(20)])))
