"""A task that yields its results; the program takes them as they come."""

import time

import sundog as ray

ray.init(num_cpus=2)


@ray.remote(num_returns="streaming")
def pages(count):
    for i in range(count):
        time.sleep(0.03)
        yield list(range(i))


@ray.remote
def digest(page):
    time.sleep(0.03)
    return len(page)


print(sum(ray.get([digest.remote(ref) for ref in pages.remote(25)])))
