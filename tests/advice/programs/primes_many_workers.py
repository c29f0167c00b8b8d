"""Twelve workers on a machine of few cores, for tasks that compute."""

import sundog as ray


@ray.remote
def count_primes(low, high):
    found = 0
    for number in range(low, high):
        if number > 1 and all(number % d for d in range(2, int(number**0.5) + 1)):
            found += 1
    return found


def main():
    ray.init(num_cpus=12)  # fault: too-many-workers
    parts = [count_primes.remote(low, low + 2000) for low in range(0, 72_000, 2000)]
    print(sum(ray.get(parts)))


if __name__ == "__main__":
    main()
