"""The mended twin of retries_exception.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


class Flaky(Exception):
    pass


@ray.remote(max_retries=3, retry_exceptions=True)
def fetch(x):
    time.sleep(0.2)
    return x


ray.get([fetch.remote(x) for x in range(8)])
