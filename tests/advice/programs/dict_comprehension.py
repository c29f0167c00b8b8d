"""Prices of several shops, one dict comprehension."""

import time

from sundog import get, init, remote


@remote
def price(shop, item, *, currency="EUR"):
    time.sleep(0.08)
    return hash((shop, item)) % 100


def prices(item, shops):
    return {shop: get(price.remote(shop, item, currency="USD")) for shop in shops}  # fault: get-in-loop


if __name__ == "__main__":
    init(num_cpus=4)
    print(len(prices("chair", [f"shop{n}" for n in range(14)])))
