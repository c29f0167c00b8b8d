"""Statistics of each column; the whole table goes along each time."""

import numpy as np

# needs: pandas
import pandas as pd

import sundog as ray


@ray.remote
def profile_column(frame, column):
    values = frame[column].to_numpy()
    return column, float(values.mean()), float(np.percentile(values, 99))


def profile(frame):
    return ray.get([profile_column.remote(frame, c) for c in frame.columns])  # fault: large-argument


if __name__ == "__main__":
    ray.init()
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((200_000, 40)), columns=[f"c{i}" for i in range(40)])
    print(len(profile(table)))
