"""Two actors train beside each other; the program compares them after each epoch."""

import numpy as np

import sundog as ray


@ray.remote
class Trainer:
    def __init__(self, rate):
        self.rate, self.w = rate, np.zeros(40)
        self.x = np.random.default_rng(0).normal(size=(20_000, 40))
        self.y = self.x @ np.arange(40)

    def epoch(self):
        for _ in range(6):
            self.w -= self.rate * self.x.T @ (self.x @ self.w - self.y) / len(self.x)
        return float(np.abs(self.w - np.arange(40)).max())


def main():
    ray.init()
    trainers = [Trainer.remote(rate) for rate in (0.1, 0.4)]
    for _ in range(10):
        losses = ray.get([trainer.epoch.remote() for trainer in trainers])
        print(losses)


if __name__ == "__main__":
    main()
