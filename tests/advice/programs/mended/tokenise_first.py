"""The driver reads and splits a corpus alone; then shards are counted in tasks."""

import re
import time
from collections import Counter

import sundog as ray


@ray.remote
def count(tokens):
    time.sleep(0.2)
    return Counter(tokens)


def read(lines):
    time.sleep(1.5)  # a slow disk
    return re.findall(r"\w+", " ".join(lines))


@ray.remote
def read_part(lines):
    time.sleep(1.5 / 4)
    return re.findall(r"\w+", " ".join(lines))


def main():
    ray.init(num_cpus=4)
    lines = ["the quick brown fox jumps over the lazy dog"] * 400
    parts = ray.get([read_part.remote(lines[i::4]) for i in range(4)])
    tokens = [token for part in parts for token in part]
    shards = [tokens[i::8] for i in range(8)]
    total = sum(ray.get([count.remote(shard) for shard in shards]), Counter())
    print(total.most_common(2))


if __name__ == "__main__":
    main()
