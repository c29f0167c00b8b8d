"""A module global is used inside the task."""

import numpy as np

import sundog as ray

ray.init()

EMBEDDINGS = np.random.default_rng(0).normal(size=(12_000, 800))


@ray.remote
def nearest(query):  # fault: closure
    return int(np.argmax(EMBEDDINGS[:2000] @ query))


queries = np.random.default_rng(1).normal(size=(40, 800))
print(sum(ray.get([nearest.remote(q) for q in queries])))
