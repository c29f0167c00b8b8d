"""Daily files of very different size; the results are merged as they are read."""

import time

import numpy as np

# needs: pandas
import pandas as pd

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def read_day(day, seconds):
    time.sleep(seconds)
    rng = np.random.default_rng(day)
    return pd.DataFrame({"key": rng.integers(0, 500, 40_000), "value": rng.random(40_000)})


def merge(total, frame):
    for _ in range(8):
        part = frame.groupby("key")["value"].agg(["sum", "mean", "std"])
    return part if total is None else total.add(part, fill_value=0)


waits = [1.0, 0.2, 0.15, 0.3, 0.6, 0.1, 0.1, 0.5, 0.2, 0.1, 0.4, 0.1]
pending = [read_day.remote(day, wait) for day, wait in enumerate(waits)]
total = None
for i in range(len(pending)):
    total = merge(total, ray.get(pending[i]))  # fault: get-in-order
print(total["sum"].sum())
