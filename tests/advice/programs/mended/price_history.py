"""The prices of all days are stored, and their ref is given to the task."""

import numpy as np

import sundog as ray

PRICES = np.random.default_rng(0).lognormal(size=(6_000_000,))


@ray.remote
def backtest(prices, window):
    prices = prices[: 200 * window]
    return float(np.convolve(prices, np.ones(window) / window, "valid").mean())


if __name__ == "__main__":
    ray.init()
    ref = ray.put(PRICES)
    print(max(ray.get([backtest.remote(ref, window) for window in range(50, 300, 10)])))
