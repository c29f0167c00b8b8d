"""Bootstrap intervals: all samples are sent out, then awaited."""

import numpy as np

import sundog as ray


@ray.remote
def resample(values, seed):
    rng = np.random.default_rng(seed)
    return float(np.mean([rng.choice(values, len(values)).mean() for _ in range(60)]))


def interval(values, count=24):
    means = ray.get([resample.remote(values, seed) for seed in range(count)])
    return np.percentile(means, [5, 95])


if __name__ == "__main__":
    ray.init()
    values = ray.put(np.random.default_rng(0).normal(size=60_000))
    print(interval(values))
