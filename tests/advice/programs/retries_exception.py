"""A program with a planted fault: retries. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


class Flaky(Exception):
    pass


@ray.remote(max_retries=3, retry_exceptions=True)
def fetch(x, marks):
    time.sleep(0.2)
    if ray.get(marks.first_time.remote(x)):
        raise Flaky(x)
    return x


@ray.remote
class Marks:
    def __init__(self):
        self.seen = set()

    def first_time(self, x):
        new = x not in self.seen
        self.seen.add(x)
        return new


marks = Marks.remote()
ray.get([fetch.remote(x, marks) for x in range(8)])  # fault: retries
