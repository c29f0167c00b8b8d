"""A generator gives scored batches one after the other; its reader does not see that it waits for each."""

import numpy as np

import sundog as ray


@ray.remote
def score(batch):
    values = batch
    for _ in range(30):
        values = np.tanh(values + np.sin(values))
    return values.mean(axis=1)


def batches(count):
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield rng.normal(size=(200, 300)).astype("f4")


def scored(source):
    for number, batch in enumerate(source):
        yield number, ray.get(score.remote(batch))  # fault: get-in-loop


def main():
    ray.init()
    best = {}
    for number, scores in scored(batches(40)):
        best[number] = float(scores.max())
    print(max(best, key=best.get))


if __name__ == "__main__":
    main()
