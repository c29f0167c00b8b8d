"""Simulations of queues; the busiest one is sent out last."""

import random

import sundog as ray


@ray.remote
def simulate(seed, customers):
    draw = random.Random(seed)
    clock = free = waited = 0.0
    for _ in range(customers):
        clock += draw.expovariate(0.9)
        begin = max(clock, free)
        waited += begin - clock
        free = begin + draw.expovariate(1.0)
    return waited / customers


def main():
    ray.init()
    sizes = [60_000] * 12 + [900_000]
    refs = [simulate.remote(seed, customers) for seed, customers in enumerate(sizes)]  # fault: stragglers
    print(sum(ray.get(refs)))


if __name__ == "__main__":
    main()
