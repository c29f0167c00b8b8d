"""The mended twin of order_script.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def vary(seconds):
    time.sleep(seconds)
    return seconds


def work_on(result):
    time.sleep(0.12)


left = [vary.remote(0.9 if n == 0 else 0.1) for n in range(8)]
while left:
    [ref], left = ray.wait(left, num_returns=1)
    work_on(ray.get(ref))
