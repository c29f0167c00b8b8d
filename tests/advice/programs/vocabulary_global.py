"""Documents are vectorised with an embedding matrix that is a global of the script."""

import numpy as np

import sundog as ray

ray.init(num_cpus=2)
EMBEDDING = np.random.default_rng(1).normal(size=(120_000, 64)).astype(np.float32)


@ray.remote
def vectorise(tokens):  # fault: closure
    return EMBEDDING[tokens].mean(axis=0)


documents = [[(n * 31 + k) % 120_000 for k in range(500)] for n in range(40)]
vectors = ray.get([vectorise.remote(tokens) for tokens in documents])
print(np.stack(vectors).shape)
