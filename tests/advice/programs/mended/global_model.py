"""A module global is used inside the task."""

import numpy as np

import sundog as ray

ray.init()

EMBEDDINGS = np.random.default_rng(0).normal(size=(12_000, 800))


@ray.remote
def nearest(embeddings, query):
    return int(np.argmax(embeddings[:2000] @ query))


queries = np.random.default_rng(1).normal(size=(40, 800))
ref = ray.put(EMBEDDINGS)
print(sum(ray.get([nearest.remote(ref, q) for q in queries])))
