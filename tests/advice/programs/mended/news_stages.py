"""The twin of news_stages: the largest source comes first."""

import time
from collections import Counter

import sundog as ray

SOURCES = {**{f"feed-{n}": 1 for n in range(14)}, "archive": 9}


@ray.remote
def download(name, size):
    time.sleep(0.02)
    return [f"{name} word{n % 50} text" for n in range(200 * size)]


@ray.remote
def tokenize(lines, size):
    time.sleep(0.08 * size)
    return [word for line in lines for word in line.split()]


@ray.remote
def count(words):
    return Counter(words)


def main():
    ray.init(num_cpus=3)
    names = sorted(SOURCES, key=lambda name: -SOURCES[name])
    lines = {name: download.remote(name, SOURCES[name]) for name in names}
    words = {name: tokenize.remote(ref, SOURCES[name]) for name, ref in lines.items()}
    counts = {name: count.remote(ref) for name, ref in words.items()}
    merged = Counter()
    for name in names:
        merged += ray.get(counts[name])
    print(merged.most_common(3))


if __name__ == "__main__":
    main()
