"""Words are indexed by their first letter; one letter has far more of them than the others."""

import time
from collections import defaultdict

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def index(words):
    time.sleep(0.004 * len(words))
    return {word: len(word) for word in words}


def groups(words):
    found = defaultdict(list)
    for word in words:
        found[word[0]].append(word)
    return found


words = [f"{letter}{n}" for letter in "abcdefghijklmnop" for n in range(40)] + [f"s{n}" for n in range(330)]
refs = {letter: index.remote(own) for letter, own in groups(words).items()}  # fault: stragglers
total = {}
for ref in refs.values():
    total.update(ray.get(ref))
print(len(total))
