"""A small configuration goes by value with every task, and a large table by ref."""

from dataclasses import dataclass

import numpy as np

import sundog as ray


@dataclass
class Config:
    window: int
    names: tuple


@ray.remote
def smooth(table, config, row):
    kernel = np.ones(config.window) / config.window
    return float(sum(np.convolve(table[row + n], kernel, "same").max() for n in range(10)))


def main():
    ray.init()
    table = ray.put(np.random.default_rng(0).random((300, 20_000)))
    config = Config(50, tuple(f"column{n}" for n in range(200)))
    refs = [smooth.remote(table, config, row) for row in range(0, 300, 10)]
    print(max(ray.get(refs)))


if __name__ == "__main__":
    main()
