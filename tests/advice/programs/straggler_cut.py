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


refs = []
for size in [1.6, *[0.1] * 8]:
    refs.append(vary.remote(size))  # fault: stragglers
ray.get(refs)
