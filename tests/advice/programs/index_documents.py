"""An index is built of parsed documents, in the order in which they were sent out."""

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
        for ref in pending:
            counted = ray.get(ref)  # fault: get-in-order
            self.add(counted)


ray.init(num_cpus=4)
index = Index()
index.build(range(20))
print(index.words.most_common(3))
