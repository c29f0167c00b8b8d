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
        return [hit for hits in ray.get([shard.search.remote(text) for shard in self.shards]) for hit in hits]


index = Index.remote(5)
for text in ["a", "b", "c", "d", "e", "f"]:
    print(len(ray.get(index.search.remote(text))))
