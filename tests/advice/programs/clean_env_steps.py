"""One environment, one policy: each step needs the one before."""

import time

import sundog as ray


@ray.remote
class Environment:
    def __init__(self):
        self.state = 0.0

    def step(self, action):
        time.sleep(0.01)
        self.state += action
        return self.state


def policy(state):
    return 1.0 if state < 5 else -0.5


if __name__ == "__main__":
    ray.init(num_cpus=2)
    env = Environment.remote()
    state = 0.0
    for _ in range(80):
        state = ray.get(env.step.remote(policy(state)))
    print(state)
