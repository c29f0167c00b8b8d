"""k-means: every iteration needs the centres of the one before."""

import numpy as np

import sundog as ray


@ray.remote
def assign(points, centres):
    d = ((points[:, None, :] - centres[None]) ** 2).sum(-1)
    nearest = d.argmin(1)
    return np.array([points[nearest == k].sum(0) for k in range(len(centres))]), np.bincount(
        nearest, minlength=len(centres)
    )


if __name__ == "__main__":
    ray.init()
    rng = np.random.default_rng(0)
    parts = [ray.put(rng.normal(size=(60_000, 4)) + i) for i in range(6)]
    centres = rng.normal(size=(8, 4))
    for _ in range(6):
        results = ray.get([assign.remote(part, centres) for part in parts])
        sums = sum(r[0] for r in results)
        counts = sum(r[1] for r in results)
        centres = sums / np.maximum(counts, 1)[:, None]
    print(centres.sum())
