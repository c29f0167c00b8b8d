"""The twin of quotes_async: all cities at once."""

import asyncio
import time
from dataclasses import dataclass

import sundog as ray


@dataclass
class Quote:
    city: str
    price: float


@ray.remote
def ask_supplier(city, supplier):
    time.sleep(0.07)
    return 100 + len(city) * supplier


async def cheapest(city):
    asked = [ask_supplier.remote(city, number) for number in (1, 2)]
    prices = await asyncio.gather(*asked)
    return Quote(city, min(prices))


async def main(cities):
    quotes = await asyncio.gather(*[cheapest(city) for city in cities])
    print(min(quotes, key=lambda quote: quote.price))


if __name__ == "__main__":
    ray.init(num_cpus=8)
    asyncio.run(main([f"city-{n}" for n in range(20)]))
