"""joblib with sundog's backend: a small grid."""

# needs: joblib
import math
import time

import joblib

import sundog
from sundog.util.joblib import register_ray


def fit(depth, rate):
    time.sleep(0.05)
    return math.sin(depth) * rate


if __name__ == "__main__":
    sundog.init(num_cpus=4)
    register_ray()
    with joblib.parallel_backend("ray"):
        scores = joblib.Parallel(n_jobs=4)(
            joblib.delayed(fit)(depth, rate) for depth in range(8) for rate in (0.1, 0.2, 0.3)
        )
    print(max(scores))
