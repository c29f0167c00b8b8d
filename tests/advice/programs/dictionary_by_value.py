"""The dictionary of all words goes with each batch of texts."""

import random

import sundog as ray


@ray.remote
def encode(texts, dictionary):
    return [[dictionary.get(word, 0) for word in text.split()] for text in texts]


def main():
    ray.init()
    draw = random.Random(3)
    dictionary = {f"word{n}": n for n in range(250_000)}
    texts = [" ".join(f"word{draw.randrange(300_000)}" for _ in range(50)) for _ in range(1000)]
    refs = []
    for first in range(0, len(texts), 50):
        refs.append(encode.remote(texts[first : first + 50], dictionary=dictionary))  # fault: large-argument
    print(sum(len(rows) for rows in ray.get(refs)))


if __name__ == "__main__":
    main()
