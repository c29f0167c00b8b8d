"""Cosine similarity of all pairs of vectors, in tasks."""

import numpy as np

import sundog as ray

rng = np.random.default_rng(7)
vectors = {name: rng.normal(size=16) for name in (f"doc-{n}" for n in range(180))}


@ray.remote
def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def main():
    ray.init()
    names = sorted(vectors)
    refs = {}
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            refs[one, other] = cosine.remote(vectors[one], vectors[other])  # fault: tasks-too-small
    found = dict(zip(refs, ray.get(list(refs.values()))))
    best = max(found, key=found.get)
    print(f"{best}: {found[best]:.3f} of {len(found)}")


if __name__ == "__main__":
    main()
