"""A generator task streams blocks, which are worked on as they come."""

import time

import sundog as ray


@ray.remote(num_returns="streaming")
def blocks(count):
    for n in range(count):
        time.sleep(0.08)
        yield list(range(n))


@ray.remote
def digest(block):
    time.sleep(0.15)
    return sum(block)


if __name__ == "__main__":
    ray.init(num_cpus=4)
    sums = [digest.remote(ref) for ref in blocks.remote(16)]
    print(sum(ray.get(sums)))
