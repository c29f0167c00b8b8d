"""A program with a planted fault: serial-part. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


def report(results):
    for _ in results:
        time.sleep(0.1)


results = ray.get([nap.remote(x) for x in range(8)])
report(results)  # fault: serial-part
ray.shutdown()
