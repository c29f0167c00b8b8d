"""Four environments step together; the policy needs all their states."""

import time

import sundog as ray


@ray.remote
class Env:
    def __init__(self, seed):
        self.state = seed

    def step(self, action):
        time.sleep(0.03)
        self.state = (self.state * 31 + action) % 101
        return self.state, float(self.state == 7)


class Agent:
    def __init__(self):
        self.total = 0.0

    def act(self, states):
        return [1 if state % 2 else 0 for state in states]


def rollout(envs, agent, steps):
    states = [0] * len(envs)
    for _ in range(steps):
        actions = agent.act(states)
        outcomes = ray.get([env.step.remote(action) for env, action in zip(envs, actions)])
        states = [state for state, _ in outcomes]
        agent.total += sum(reward for _, reward in outcomes)
    return agent.total


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(rollout([Env.remote(seed) for seed in range(4)], Agent(), 40))
