"""A coordinator actor waits inside its calls."""

import time

import sundog as ray


@ray.remote
def query(shard, key):
    time.sleep(0.08)
    return shard + key


@ray.remote
def add(*parts):
    return sum(parts)


@ray.remote
class Coordinator:
    def __init__(self, shards):
        self.shards = shards

    def lookup(self, key):
        parts = [query.remote(shard, key) for shard in range(self.shards)]
        return add.remote(*parts)


if __name__ == "__main__":
    ray.init(num_cpus=8)
    coordinator = Coordinator.remote(2)
    print(sum(ray.get(ray.get([coordinator.lookup.remote(k) for k in range(20)]))))
