"""Pipelines of tasks, all of which hand their text to the same tokenizer actor by ref."""

import time

import sundog as ray


@ray.remote
def read(path):
    time.sleep(0.05)
    return f"text of {path}"


@ray.remote
class Tokenizer:
    def encode(self, text):
        time.sleep(0.09)
        return text.split()


@ray.remote
def count(tokens):
    return len(tokens)


class Pipeline:
    def __init__(self, width):
        self.tokenizers = [Tokenizer.remote()]  # fault: one-actor

    def start(self, n, path):
        tokenizer = self.tokenizers[n % len(self.tokenizers)]
        return count.remote(tokenizer.encode.remote(read.remote(path)))


if __name__ == "__main__":
    ray.init(num_cpus=8)
    pipeline = Pipeline(width=8)
    print(sum(ray.get([pipeline.start(n, f"{n}.txt") for n in range(28)])))
