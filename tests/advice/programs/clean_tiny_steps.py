"""An environment makes many small steps; each action follows from the step before."""

import sundog as ray


@ray.remote
class Env:
    def __init__(self):
        self.position = 0.0

    def step(self, action):
        for _ in range(2000):
            self.position += action * 1e-6
        return self.position


if __name__ == "__main__":
    ray.init(num_cpus=2)
    env = Env.remote()
    position = 0.0
    for _ in range(1500):
        action = 1.0 if position < 0.5 else -1.0
        position = ray.get(env.step.remote(action))
    print(round(position, 3))
