"""Each request is an object of its own, and holds the whole price table."""

from dataclasses import dataclass

import numpy as np

import sundog as ray


@dataclass
class Request:
    prices: np.ndarray
    shop: int
    day: int


@ray.remote
def revenue(request):
    prices = request.prices[request.shop]
    return float(np.sort(prices).cumsum()[request.day])


def main():
    ray.init()
    prices = np.random.default_rng(0).random((60, 100_000))
    requests = ((shop, day) for shop in range(10) for day in (10, 20, 30))
    refs = {}
    for shop, day in requests:
        refs[shop, day] = revenue.remote(Request(prices, shop, day))  # fault: large-argument
    print(max(ray.get(list(refs.values()))))


if __name__ == "__main__":
    main()
