"""A program with a planted fault: stragglers. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def vary(seconds):
    time.sleep(seconds)
    return seconds


def work_on(result):
    time.sleep(0.12)


sizes = [0.1] * 16 + [1.0]
ray.get([vary.remote(size) for size in sizes])  # fault: stragglers
