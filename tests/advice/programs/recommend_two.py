"""Recommendations: the embeddings go by value with every batch; later three reports are awaited one by one."""

import time

import numpy as np

import sundog as ray


@ray.remote
def recommend(embeddings, users):
    return {user: int(np.argmax(embeddings[:2000] @ embeddings[user])) for user in users}


@ray.remote
def report(section, size):
    time.sleep(0.02)
    return f"{section}: {size}"


class Recommender:
    def __init__(self, rows):
        self.embeddings = np.random.default_rng(0).normal(size=(rows, 48))
        self.found = {}

    def run(self, batches):
        refs = []
        for batch in batches:
            refs.append(recommend.remote(self.embeddings, batch))  # fault: large-argument
        for part in ray.get(refs):
            self.found.update(part)

    def reports(self):
        return [ray.get(report.remote(name, len(self.found))) for name in ("daily", "weekly", "all")]


if __name__ == "__main__":
    ray.init()
    recommender = Recommender(30_000)
    recommender.run([range(n, n + 40) for n in range(0, 2000, 40)])
    print(recommender.reports())
