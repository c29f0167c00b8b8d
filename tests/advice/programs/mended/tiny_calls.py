"""The twin of tiny_calls: a call for each thousand words."""

import random

import sundog as ray


@ray.remote
class Counts:
    def __init__(self):
        self.found = {}

    def add(self, words):
        for word in words:
            self.found[word] = self.found.get(word, 0) + 1

    def most_common(self, count):
        return sorted(self.found.items(), key=lambda pair: -pair[1])[:count]


class Text:
    def __init__(self, words):
        draw = random.Random(2)
        self.words = [f"word{int(draw.expovariate(0.02))}" for _ in range(words)]

    def count(self, counts):
        for first in range(0, len(self.words), 1000):
            counts.add.remote(self.words[first : first + 1000])
        return ray.get(counts.most_common.remote(5))


if __name__ == "__main__":
    ray.init()
    print(Text(30_000).count(Counts.remote()))
