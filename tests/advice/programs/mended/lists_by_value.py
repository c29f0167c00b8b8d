"""A list of stop words and synonyms goes to an actor with each document."""

import sundog as ray


@ray.remote
class Cleaner:
    def __init__(self):
        self.count = 0

    def clean(self, text, words):
        self.count += 1
        return [word for word in text.split() if word not in words[:50]]


def main():
    ray.init(num_cpus=2)
    words = [f"stop-word-{n}" for n in range(120_000)]
    cleaners = [Cleaner.remote(), Cleaner.remote()]
    ref = ray.put(words)
    pending = []
    for n in range(40):
        pending.append(cleaners[n % 2].clean.remote(f"text number {n}", ref))
    print(sum(len(found) for found in ray.get(pending)))


main()
