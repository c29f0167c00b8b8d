"""A simulation steps an actor, and decides by what it sees what to do next."""

import sundog as ray


@ray.remote
class Game:
    def __init__(self, seed):
        self.state = seed

    def step(self, action):
        for _ in range(40_000):
            self.state = (self.state * 1103515245 + action) % 2147483648
        return self.state


@ray.remote
def evaluate(state):
    total = 0
    for n in range(60_000):
        total += (state ^ n) & 7
    return total


ray.init()
game = Game.remote(1)
action, scores = 0, []
for _ in range(30):
    state = ray.get(game.step.remote(action))
    action = state % 4
    scores.append(evaluate.remote(state))
print(sum(ray.get(scores)))
