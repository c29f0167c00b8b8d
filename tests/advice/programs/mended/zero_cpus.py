"""Somebody set num_cpus=0 so that everything starts at once; each worker loads a model."""

import sundog as ray

_models = []


def model():
    if not _models:
        _models.append({i: str(i * i) for i in range(600_000)})
    return _models[0]


@ray.remote
def classify(chunk):
    table = model()
    return sum(len(table[i % 600_000]) for i in chunk)


def main():
    ray.init(num_cpus=2)
    chunks = [range(i * 50_000, (i + 1) * 50_000) for i in range(30)]
    jobs = [classify.remote(chunk) for chunk in chunks]
    print(sum(ray.get(jobs)))


if __name__ == "__main__":
    main()
