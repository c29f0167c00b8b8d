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


def main():
    ray.init(num_cpus=4)
    lines = ["the quick brown fox jumps over the lazy dog"] * 400
    tokens = read(lines)  # fault: serial-part
    shards = [tokens[i::8] for i in range(8)]
    total = sum(ray.get([count.remote(shard) for shard in shards]), Counter())
    print(total.most_common(2))


if __name__ == "__main__":
    main()
