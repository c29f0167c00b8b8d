"""Shards are downloaded in tasks; a generator gives them to the indexer of the driver."""

import time

import sundog

sundog.init(num_cpus=6)


@sundog.remote
def download(shard: int) -> list[int]:
    time.sleep(1.2 if shard in (0, 1) else 0.2)
    return list(range(shard, shard + 5))


def results(refs):
    for number, ref in enumerate(refs):
        yield number, sundog.get(ref)  # fault: get-in-order


class Index:
    def __init__(self):
        self.postings = {}

    def add(self, number, words):
        time.sleep(0.1)
        for word in words:
            self.postings.setdefault(word, []).append(number)


index = Index()
refs = [download.remote(shard) for shard in range(12)]
for number, words in results(refs):
    index.add(number, words)
print(len(index.postings))
