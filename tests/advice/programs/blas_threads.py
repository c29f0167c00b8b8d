"""Matrix products in every worker, each with eight threads of BLAS."""

import numpy as np

# needs: threadpoolctl
from threadpoolctl import threadpool_limits

import sundog as ray

ray.init()


@ray.remote
def factor(seed):
    with threadpool_limits(8):  # fault: too-many-threads
        a = np.random.default_rng(seed).normal(size=(200, 200))
        for _ in range(60):
            a = a @ a.T
            a /= np.abs(a).max()
        return float(np.linalg.norm(a))


print(sum(ray.get([factor.remote(i) for i in range(16)])))
