"""Word count: mappers, a shuffle by first letter, reducers; results are written as they come."""

import time
from collections import Counter

import sundog

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the big bad wolf " * 40


@sundog.remote
def mapper(number, text):
    time.sleep(0.4 if number == 0 else 0.05)  # the first file is on a slow disk
    return Counter(text.split())


def save(counts):
    time.sleep(0.06)  # an insert
    return counts


def main():
    sundog.init(num_cpus=8)
    refs = [mapper.remote(n, TEXT) for n in range(8)]
    total = Counter()
    while refs:
        (ref,), refs = sundog.wait(refs)
        total += save(sundog.get(ref))
    print(total.most_common(3))


main()
