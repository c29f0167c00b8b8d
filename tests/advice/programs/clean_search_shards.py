"""Each shard builds its part of an index, and all are asked once."""

import sundog as ray


@ray.remote
class Shard:
    def __init__(self, number):
        self.index = {}
        for n in range(60_000):
            self.index.setdefault(f"key{(n * 7 + number) % 5000}", []).append(n)

    def search(self, key):
        return len(self.index.get(key, ()))


if __name__ == "__main__":
    ray.init(num_cpus=2)
    shards = [Shard.remote(number) for number in range(8)]
    print(sum(ray.get([shard.search.remote("key42") for shard in shards])))
