"""The mended twin of loop_from_import.py."""

import time

from sundog import get, init, remote

init(num_cpus=4)


@remote
def nap(x):
    time.sleep(0.15)
    return x


total = sum(get([nap.remote(x) for x in range(8)]))
