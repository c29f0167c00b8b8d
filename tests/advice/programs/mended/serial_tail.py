"""The mended twin of serial_tail.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
def report(results):
    for _ in results:
        time.sleep(0.1)


results = ray.get([nap.remote(x) for x in range(8)])
ray.get([report.remote(results[n::4]) for n in range(4)])
ray.shutdown()
