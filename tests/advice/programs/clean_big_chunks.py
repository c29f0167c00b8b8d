"""Data in the store once, chunks by index."""

import numpy as np

import sundog as ray


@ray.remote
def chunk_sum(data, lo, hi):
    return float(np.sqrt(np.sort(data[lo:hi])).sum())


def main():
    ray.init()
    data = ray.put(np.random.default_rng(0).random(6_000_000))
    refs = [chunk_sum.remote(data, i, i + 250_000) for i in range(0, 6_000_000, 250_000)]
    print(sum(ray.get(refs)))


if __name__ == "__main__":
    main()
