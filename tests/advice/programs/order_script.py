"""A program with a planted fault: get-in-order. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def vary(seconds):
    time.sleep(seconds)
    return seconds


def work_on(result):
    time.sleep(0.12)


refs = [vary.remote(0.9 if n == 0 else 0.1) for n in range(8)]
for ref in refs:
    work_on(ray.get(ref))  # fault: get-in-order
