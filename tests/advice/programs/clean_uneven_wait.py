"""Uneven tasks, the longest first, taken as they come."""

import time

import sundog as ray

ray.init(num_cpus=3)


@ray.remote
def build(seconds):
    time.sleep(seconds)
    return seconds


plan = sorted([0.5, 0.05, 0.1, 0.3, 0.07, 0.2, 0.05, 0.4, 0.1, 0.15, 0.06, 0.25], reverse=True)
left = [build.remote(s) for s in plan]
while left:
    done, left = ray.wait(left, num_returns=1, timeout=5)
    for ref in done:
        print(ray.get(ref))
