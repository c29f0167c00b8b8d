"""A program with a planted fault: nested-get. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def nap(x):
    time.sleep(0.15)
    return x


@ray.remote
class Planner:
    def plan(self, n):
        parts = [nap.remote(x) for x in range(n)]
        return sum(ray.get(parts))  # fault: nested-get


planner = Planner.remote()
print(ray.get([planner.plan.remote(2) for _ in range(6)]))
