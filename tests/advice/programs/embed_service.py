"""Embeddings of requests by a model that lives in an actor."""

import time
from dataclasses import dataclass

import sundog as ray


@dataclass(frozen=True)
class Request:
    id: int
    text: str


@ray.remote(num_cpus=1, max_restarts=1)
class Embedder:
    def __init__(self, model: str, dim: int = 4):
        self.model, self.dim = model, dim
        time.sleep(0.1)

    def encode(self, request):
        time.sleep(0.1)
        return [float(len(request.text))] * self.dim


def main():
    ray.init(num_cpus=4)
    requests = [Request(n, "x" * n) for n in range(20)]
    embedder = Embedder.options(name="embedder").remote("mini-lm")  # fault: one-actor
    vectors = {request.id: embedder.encode.remote(request) for request in requests}
    found = dict(zip(vectors, ray.get(list(vectors.values()))))
    print(sum(vector[0] for vector in found.values()))


if __name__ == "__main__":
    main()
