"""Matrix products in every worker; somebody has set BLAS free to use all cores in each of them."""

import numpy as np

import sundog as ray

ray.init(num_cpus=2, runtime_env={"env_vars": {"OPENBLAS_NUM_THREADS": "2"}})  # fault: too-many-threads


@ray.remote
def power(seed):
    a = np.random.default_rng(seed).normal(size=(300, 300))
    for _ in range(150):
        a = a @ a.T
        a /= np.abs(a).max()
    return float(np.linalg.norm(a))


print(sum(ray.get([power.remote(seed) for seed in range(10)])))
