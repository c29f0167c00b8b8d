"""Prices of several shops, one dict comprehension."""

import time

from sundog import get, init, remote


@remote
def price(shop, item, *, currency="EUR"):
    time.sleep(0.08)
    return hash((shop, item)) % 100


def prices(item, shops):
    refs = [price.remote(shop, item, currency="USD") for shop in shops]
    return dict(zip(shops, get(refs)))


if __name__ == "__main__":
    init(num_cpus=4)
    print(len(prices("chair", [f"shop{n}" for n in range(14)])))
