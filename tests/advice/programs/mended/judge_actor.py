"""Candidates of several problems are judged by an actor with a slow model."""

import time
from itertools import product

import sundog as ray


@ray.remote
class Judge:
    def __init__(self, model):
        self.model = model

    def compare(self, problem, candidate):
        time.sleep(0.08)
        return len(candidate) - problem, f"{self.model}: {candidate}"


def best(answers):
    return max(ray.get(answers))


if __name__ == "__main__":
    ray.init(num_cpus=4)
    judges = [Judge.remote("large") for _ in range(4)]
    scores = []
    for n, (problem, candidate) in enumerate(product(range(6), ["a", "bb", "ccc", "dddd", "eeeee"])):
        judge = judges[n % len(judges)]
        points, note = judge.compare.options(num_returns=2).remote(problem, candidate)
        scores.append(points)
    print(best(scores))
