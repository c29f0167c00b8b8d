"""Successive search: each batch is chosen by what the last batch gave."""

import time

import sundog as ray


@ray.remote
def probe(x):
    time.sleep(0.15)
    return (x - 3.3) ** 2


def search(low, high, rounds=7):
    for _ in range(rounds):
        grid = [low + (high - low) * k / 4 for k in range(5)]
        scores = dict(zip(grid, ray.get([probe.remote(x) for x in grid])))
        best = min(scores, key=scores.get)
        width = (high - low) / 4
        low, high = best - width, best + width
        if high - low < 1e-3:
            break
    return best


if __name__ == "__main__":
    ray.init(num_cpus=5)
    print(f"{search(0.0, 10.0):.3f}")
