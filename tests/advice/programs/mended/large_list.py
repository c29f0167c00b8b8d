"""The mended twin of large_list.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def use(data, x):
    time.sleep(0.02)
    return len(data) + x


table = ray.put([str(n) for n in range(400_000)])
refs = [use.remote(table, x) for x in range(8)]
ray.get(refs)
