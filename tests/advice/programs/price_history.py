"""The prices of all days are a global that the task reads."""

import numpy as np

import sundog as ray

PRICES = np.random.default_rng(0).lognormal(size=(6_000_000,))


@ray.remote
def backtest(window):  # fault: closure
    prices = PRICES[: 200 * window]
    return float(np.convolve(prices, np.ones(window) / window, "valid").mean())


if __name__ == "__main__":
    ray.init()
    print(max(ray.get([backtest.remote(window) for window in range(50, 300, 10)])))
