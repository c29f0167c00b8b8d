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
    pieces = [part for group in groups for part in np.array_split(group, max(1, len(group) // 130_000))]
    refs = [summarise.remote(piece) for piece in pieces]
    print(sum(ray.get(refs)))
