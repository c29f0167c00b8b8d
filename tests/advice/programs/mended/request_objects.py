"""The twin of request_objects: the table is in the store once."""

from dataclasses import dataclass

import numpy as np

import sundog as ray


@dataclass
class Request:
    shop: int
    day: int


@ray.remote
def revenue(table, request):
    prices = table[request.shop]
    return float(np.sort(prices).cumsum()[request.day])


def main():
    ray.init()
    prices = ray.put(np.random.default_rng(0).random((60, 100_000)))
    requests = ((shop, day) for shop in range(10) for day in (10, 20, 30))
    refs = {}
    for shop, day in requests:
        refs[shop, day] = revenue.remote(prices, Request(shop, day))
    print(max(ray.get(list(refs.values()))))


if __name__ == "__main__":
    main()
