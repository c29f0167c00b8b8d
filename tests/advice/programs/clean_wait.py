"""A program without a fault: nothing may be found in it. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def vary(seconds):
    time.sleep(seconds)
    return seconds


def work_on(result):
    time.sleep(0.12)


left = [vary.remote(0.1 * (n % 4 + 1)) for n in range(12)]
while left:
    done, left = ray.wait(left)
    ray.get(done)
