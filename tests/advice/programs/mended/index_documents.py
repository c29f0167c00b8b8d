"""An index is built of parsed documents, as they come."""

import time
from collections import Counter

import sundog as ray


@ray.remote
def parse(document):
    time.sleep(0.6 if document % 5 == 0 else 0.05)
    return Counter(str(document * 7919))


class Index:
    def __init__(self):
        self.words = Counter()

    def add(self, counted):
        time.sleep(0.04)
        self.words.update(counted)

    def build(self, documents):
        pending = [parse.remote(document) for document in documents]
        while pending:
            ready, pending = ray.wait(pending)
            self.add(ray.get(ready[0]))


ray.init(num_cpus=4)
index = Index()
index.build(range(20))
print(index.words.most_common(3))
