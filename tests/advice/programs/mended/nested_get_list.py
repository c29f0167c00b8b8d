"""The mended twin of nested_get_list.py."""

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
        return [nap.remote(x) for x in range(n)]


planner = Planner.remote()
plans = ray.get([planner.plan.remote(2) for _ in range(6)])
print(ray.get([part for plan in plans for part in plan]))
