"""Histograms are made by tasks, then merged pair by pair in the driver."""

import time
from contextlib import contextmanager

import sundog as ray


@ray.remote
def histogram(part):
    time.sleep(0.2)
    return [part] * 100


@contextmanager
def timer(label):
    begin = time.perf_counter()
    yield
    print(f"{label}: {time.perf_counter() - begin:.1f} s")


def merge(one, two):
    time.sleep(0.15)
    return [a + b for a, b in zip(one, two)]


remote_merge = ray.remote(merge)


def main():
    ray.init(num_cpus=4)
    with timer("histograms"):
        parts = ray.get([histogram.remote(part) for part in range(12)])
    with timer("merge"):
        while len(parts) > 1:
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [remote_merge.remote(one, two) for one, two in zip(parts[::2], parts[1::2])] + odd
        total = ray.get(parts[0])
    print(sum(total))


if __name__ == "__main__":
    main()
