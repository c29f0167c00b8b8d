"""Documents are cleaned in tasks, which share one tokenizer."""

import time

import sundog as ray


@ray.remote
class Tokenizer:
    def __init__(self):
        self.words = {}

    def encode(self, text):
        time.sleep(0.03)  # the model
        return [len(word) for word in text.split()]


@ray.remote
def process(tokenizer, text):
    text = text.lower().replace("x", "y")
    time.sleep(0.01)
    tokens = ray.get(tokenizer.encode.remote(text))
    return sum(tokens)


if __name__ == "__main__":
    ray.init(num_cpus=4)
    tokenizers = [Tokenizer.remote() for _ in range(4)]
    docs = [f"document number {i} has some words" for i in range(60)]
    print(sum(ray.get([process.remote(tokenizers[i % 4], doc) for i, doc in enumerate(docs)])))
