"""An actor calls others one after the other."""

import time

import sundog as ray

ray.init(num_cpus=6)


@ray.remote
class Shard:
    def __init__(self, number):
        self.number = number

    def search(self, text):
        time.sleep(0.05)
        return [self.number]


@ray.remote
class Index:
    def __init__(self, count):
        self.shards = [Shard.remote(i) for i in range(count)]

    def search(self, text):
        hits = []
        for shard in self.shards:
            hits.extend(ray.get(shard.search.remote(text)))  # fault: get-in-loop
        return hits


index = Index.remote(5)
for text in ["a", "b", "c", "d", "e", "f"]:
    print(len(ray.get(index.search.remote(text))))
