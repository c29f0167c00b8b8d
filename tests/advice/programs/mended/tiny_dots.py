"""Cosine similarity of all pairs of vectors, in tasks."""

import numpy as np

import sundog as ray

rng = np.random.default_rng(7)
vectors = {name: rng.normal(size=16) for name in (f"doc-{n}" for n in range(180))}


@ray.remote
def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@ray.remote
def cosines(pairs):
    return [float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in pairs]


def main():
    ray.init()
    names = sorted(vectors)
    keys = [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]
    pairs = [(vectors[one], vectors[other]) for one, other in keys]
    parts = [cosines.remote(pairs[i : i + 1000]) for i in range(0, len(pairs), 1000)]
    found = dict(zip(keys, (each for part in ray.get(parts) for each in part)))
    best = max(found, key=found.get)
    print(f"{best}: {found[best]:.3f} of {len(found)}")


if __name__ == "__main__":
    main()
