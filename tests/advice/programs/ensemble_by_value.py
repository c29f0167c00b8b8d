"""Each member of an ensemble is made with the same weights, handed over by value."""

import numpy as np

import sundog as ray


@ray.remote
class Member:
    def __init__(self, weights, seed):
        self.weights = weights
        self.seed = seed

    def vote(self, x):
        return float(self.weights[self.seed :: 100_000].sum() * x)


def build(count):
    weights = np.random.default_rng(1).random(9_000_000)
    members = []
    for seed in range(count):
        members.append(Member.remote(weights, seed))  # fault: large-argument
    return members


ray.init()
members = build(8)
for x in (0.5, 1.5):
    print(sum(ray.get([member.vote.remote(x) for member in members])))
