"""Work per key, where one key has most of the rows."""

import numpy as np

import sundog as ray


@ray.remote
def summarise(values):
    out = 0.0
    for _ in range(6):
        values = np.sort(np.sin(values) * 1000)
        out += float(np.median(values))
    return out


if __name__ == "__main__":
    ray.init()
    rng = np.random.default_rng(0)
    sizes = [120_000] * 14 + [150_000, 2_600_000, 100_000]
    groups = [rng.random(n) for n in sizes]
    refs = [summarise.remote(group) for group in groups]  # fault: stragglers
    print(sum(ray.get(refs)))
