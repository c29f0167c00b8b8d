"""Each task asks for a gigabyte, and needs a little of it."""

import numpy as np

import sundog as ray


@ray.remote(memory=1024**3)  # fault: memory-bound
def spectrum(seed):
    signal = np.random.default_rng(seed).normal(size=200_000)
    return float(np.abs(np.fft.rfft(signal)).max())


@ray.remote
def largest(*values):
    return max(values)


if __name__ == "__main__":
    ray.init(_memory=1_500_000_000)
    print(ray.get(largest.remote(*[spectrum.remote(seed) for seed in range(60)])))
