"""Digests of files by a pool of processes, which is asked for one file after the other."""

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

    def add(self, number):
        self.digests[number] = self.pool.apply(digest, (number,))  # fault: get-in-loop

    def close(self):
        self.pool.terminate()


if __name__ == "__main__":
    sundog.init()
    index = Index(2)
    for number in range(20):
        index.add(number)
    index.close()
    print(len(set(index.digests.values())))
