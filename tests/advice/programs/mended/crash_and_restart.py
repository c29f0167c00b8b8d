"""Solvers crash now and then after long work, and are restarted with the call made again."""

import os
import tempfile
import time

import sundog as ray

MARKS = tempfile.mkdtemp()


@ray.remote(max_retries=4)
def solve(n):
    time.sleep(0.35)
    return n


if __name__ == "__main__":
    ray.init(num_cpus=4)
    answers = [solve.remote(n) for n in range(12)]
    print(sum(ray.get(answers)), os.path.isdir(MARKS))
