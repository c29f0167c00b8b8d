"""Monte Carlo estimates on more workers than there are cores."""

import random

import sundog as ray


@ray.remote
def estimate(seed, samples=400_000):
    rng = random.Random(seed)
    inside = sum(rng.random() ** 2 + rng.random() ** 2 < 1 for _ in range(samples))
    return 4 * inside / samples


if __name__ == "__main__":
    ray.init(num_cpus=16)  # fault: too-many-workers
    guesses = ray.get([estimate.remote(seed) for seed in range(16)])
    print(f"pi is about {sum(guesses) / len(guesses):.4f}")
