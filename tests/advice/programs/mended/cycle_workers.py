"""Workers take documents in turns, but one at a time."""

import itertools
import time

import sundog as ray


@ray.remote
class Tagger:
    def __init__(self, language):
        self.language = language

    def tag(self, document):
        time.sleep(0.15)
        return [(word, self.language) for word in document.split()]


ray.init(num_cpus=4)
taggers = [Tagger.remote(language) for language in ("en", "en", "en", "en")]
documents = [f"this is document {n}" for n in range(16)]
tags = []
refs = [tagger.tag.remote(document) for tagger, document in zip(itertools.cycle(taggers), documents)]
for ref, document in zip(refs, documents):
    found = ray.get(ref)
    tags += found
    print(f"{document}: {len(found)} tags")
print(len(tags))
