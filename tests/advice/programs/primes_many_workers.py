"""Twelve workers on a machine of few cores, for tasks that compute."""

import numpy as np

import sundog as ray


@ray.remote
def count_primes(low, high):
    numbers = np.arange(max(2, low), high)
    is_prime = np.ones(len(numbers), dtype=bool)
    for divisor in range(2, int(high**0.5) + 1):
        is_prime &= (numbers % divisor != 0) | (numbers == divisor)
    return int(is_prime.sum())


def main():
    ray.init(num_cpus=12)  # fault: too-many-workers
    parts = [count_primes.remote(low, low + 5000) for low in range(0, 720_000, 5000)]
    print(sum(ray.get(parts)))


if __name__ == "__main__":
    main()
