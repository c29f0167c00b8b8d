"""Successive halving: the better half of the settings goes on with twice the budget."""

import random
import time
from dataclasses import dataclass, field

import sundog as ray


@dataclass
class Setting:
    rate: float
    scores: list = field(default_factory=list)


@ray.remote
def train(rate, budget):
    time.sleep(0.02 * budget)
    return -abs(rate - 0.3) / budget


class Halving:
    def __init__(self, count):
        draw = random.Random(1)
        self.settings = [Setting(draw.random()) for _ in range(count)]
        self.budget = 1

    def round(self):
        refs = {id(each): train.remote(each.rate, self.budget) for each in self.settings}
        scores = dict(zip(refs, ray.get(list(refs.values()))))
        for each in self.settings:
            each.scores.append(scores[id(each)])
        self._halve()

    def _halve(self):
        self.settings.sort(key=lambda each: -each.scores[-1])
        self.settings = self.settings[: max(1, len(self.settings) // 2)]
        self.budget *= 2

    def best(self):
        while len(self.settings) > 1:
            self.round()
        return self.settings[0]


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(Halving(32).best().rate)
