"""Count words by map and reduce, with a shuffle between them.

Each map task returns one dictionary per reducer (num_returns), so a reducer receives exactly its own share
and the driver never carries the words itself.
"""

import random
import zlib
from collections import Counter

import ray

DOCUMENTS = 24
WORDS_PER_DOCUMENT = 2_000
MAPPERS = 6
REDUCERS = 4

NOUNS = ("river", "mountain", "lantern", "orchard", "compass", "harbour", "feather", "granite", "violin")
VERBS = ("carries", "follows", "mends", "paints", "remembers", "crosses", "hides", "weighs")
SMALL = ("the", "a", "of", "by", "under", "over", "near", "with", "and")


def write_document(seed: int) -> str:
    """A text of made-up sentences: the same seed gives the same text."""
    rng = random.Random(seed)
    kinds = rng.choices([SMALL, NOUNS, VERBS], weights=[5, 3, 2], k=WORDS_PER_DOCUMENT)
    return " ".join(rng.choice(kind) for kind in kinds)


def reducer_of(word: str) -> int:
    # Not hash(): that differs from process to process, and two mappers must agree.
    return zlib.crc32(word.encode()) % REDUCERS


@ray.remote(num_returns=REDUCERS)
def map_documents(seeds: list[int]) -> list[Counter]:
    shares: list[Counter] = [Counter() for _ in range(REDUCERS)]
    for seed in seeds:
        for word in write_document(seed).split():
            shares[reducer_of(word)][word] += 1
    return shares


@ray.remote
def reduce_counts(*shares: Counter) -> Counter:
    total: Counter = Counter()
    for share in shares:
        total.update(share)
    return total


def main() -> None:
    ray.init()
    mapped = [map_documents.remote(list(range(m, DOCUMENTS, MAPPERS))) for m in range(MAPPERS)]
    reduced = [reduce_counts.remote(*[row[r] for row in mapped]) for r in range(REDUCERS)]

    counts: Counter = Counter()
    for share in ray.get(reduced):
        counts.update(share)
    print(f"{sum(counts.values())} words, {len(counts)} different")
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]:
        print(f"{count:6d}  {word}")
    ray.shutdown()


if __name__ == "__main__":
    main()
