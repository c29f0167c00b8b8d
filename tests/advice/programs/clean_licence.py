"""A tool with a single licence: its tasks run one at a time because they must."""

import time

import sundog as ray


@ray.remote(resources={"licence": 1})
def solve(model):
    time.sleep(0.1)
    return model * 2


@ray.remote
def prepare(n):
    time.sleep(0.02)
    return n + 1


ray.init(num_cpus=4, resources={"licence": 1})
models = [prepare.remote(n) for n in range(8)]
print(sum(ray.get([solve.remote(model) for model in models])))
