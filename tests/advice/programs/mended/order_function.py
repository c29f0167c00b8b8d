"""The mended twin of order_function.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def vary(seconds):
    time.sleep(seconds)
    return seconds


def work_on(result):
    time.sleep(0.12)


def collect(refs):
    results = []
    while refs:
        done, refs = ray.wait(refs)
        value = ray.get(done[0])
        work_on(value)
        results.append(value)
    return results


collect([vary.remote(1.0), *[vary.remote(0.05) for _ in range(7)]])
