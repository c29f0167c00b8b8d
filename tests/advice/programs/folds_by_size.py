"""A grid of models and sizes; the largest models come last."""

import time
from itertools import product

import sundog as ray


@ray.remote(num_cpus=1)
def train(config):
    time.sleep(0.05 * config["layers"] if config["layers"] < 16 else 1.2)
    return {**config, "loss": 1 / config["layers"]}


def grid():
    for layers, lr in product((2, 3, 4, 5, 6, 16), (0.1, 0.01, 0.001, 0.0001)):
        if layers < 16 or lr == 0.1:
            yield {"layers": layers, "lr": lr}


ray.init(num_cpus=3)
configs = list(grid())
pending = {train.remote(config): config for config in configs}  # fault: stragglers
best = None
while pending:
    ready, _ = ray.wait(list(pending), num_returns=1)
    config = pending.pop(ready[0])
    outcome = ray.get(ready[0])
    if best is None or outcome["loss"] < best["loss"]:
        best = outcome
        print(f"better: {best}")
print(best)
