"""All blocks of a shuffle are kept, in a store too small for them."""

import numpy as np

import sundog as ray


@ray.remote
def read(part):
    return np.random.default_rng(part).random(1_000_000)


@ray.remote
def scale(block, factor):
    return block * factor


@ray.remote
def summarise(*blocks):
    return sum(float(block.sum()) for block in blocks)


def main():
    ray.init(object_store_memory=90_000_000)
    blocks = [read.remote(part) for part in range(12)]  # fault: spilling
    scaled = [scale.remote(block, 2.0) for block in blocks]  # fault: spilling
    print(ray.get([summarise.remote(*scaled[n::3]) for n in range(3)]), len(blocks))


if __name__ == "__main__":
    main()
