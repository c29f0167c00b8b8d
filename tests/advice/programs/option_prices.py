"""Prices of options by Monte Carlo: one strike is priced after the other."""

import math
import random

import sundog as ray


@ray.remote
class Pricer:
    def __init__(self, spot, volatility):
        self.spot, self.volatility = spot, volatility

    def price(self, strike):
        draw = random.Random(strike)
        total = 0.0
        for _ in range(12_000):
            total += max(0.0, self.spot * math.exp(self.volatility * draw.gauss(0, 1)) - strike)
        return total / 12_000


class Desk:
    def __init__(self, pricers):
        self.pricers = pricers

    def quote(self, strikes):
        return {
            strike: ray.get(self.pricers[i % len(self.pricers)].price.remote(strike))  # fault: get-in-loop
            for i, strike in enumerate(strikes)
        }


ray.init()
desk = Desk([Pricer.remote(100.0, 0.2) for _ in range(2)])
print(len(desk.quote(range(80, 120))))
