"""The twin of pool_apply: the pool is given all files."""

import hashlib

import sundog
from sundog.util.multiprocessing import Pool


def digest(number):
    found = hashlib.sha256(str(number).encode())
    for _ in range(150_000):
        found.update(found.digest())
    return found.hexdigest()


class Index:
    def __init__(self, processes):
        self.pool = Pool(processes)
        self.digests = {}

    def add(self, numbers):
        waiting = {number: self.pool.apply_async(digest, (number,)) for number in numbers}
        self.digests.update({number: each.get() for number, each in waiting.items()})

    def close(self):
        self.pool.terminate()


if __name__ == "__main__":
    sundog.init()
    index = Index(2)
    index.add(range(20))
    index.close()
    print(len(set(index.digests.values())))
