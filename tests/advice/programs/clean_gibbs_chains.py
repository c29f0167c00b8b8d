"""Four chains step in lockstep: after each step the program looks whether they have mixed, and stops when they have."""

import random
import time
from statistics import mean, pstdev

import sundog as ray


@ray.remote
class Chain:
    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.at = self.draw.uniform(-9, 9)

    def step(self):
        time.sleep(0.03)
        self.at = 0.8 * self.at + self.draw.gauss(0, 0.2)
        return self.at


def mixed(history):
    last = history[-1]
    return len(history) >= 30 and pstdev(last) < 10 * (0.1 + abs(mean(last)))


def main():
    ray.init(num_cpus=4)
    chains = [Chain.remote(seed) for seed in range(4)]
    history = []
    for _ in range(100):
        history.append(ray.get([chain.step.remote() for chain in chains]))
        if mixed(history):
            break
    print(len(history))


if __name__ == "__main__":
    main()
