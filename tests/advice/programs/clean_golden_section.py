"""Golden section search: the search is a plain function that is given a function, which asks a task."""

import math
import time

import sundog as ray


@ray.remote
def loss(rate, seed):
    time.sleep(0.04)
    return (math.log10(rate) + 2.0) ** 2 + 0.001 * seed


def golden(function, low, high, steps):
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = function(a), function(b)
    for _ in range(steps):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = function(b)
    return (low + high) / 2


def main():
    ray.init(num_cpus=4)
    asked = 0

    def measured(exponent):
        nonlocal asked
        asked += 1
        return max(ray.get([loss.remote(10**exponent, seed) for seed in range(4)]))

    print(round(golden(measured, -5, 0, 20), 2), asked)


if __name__ == "__main__":
    main()
