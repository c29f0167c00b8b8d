"""A game runs in an actor until it is over; each move needs the board after the last one."""

import time

import sundog as ray


@ray.remote
class Game:
    def __init__(self, goal):
        self.goal, self.place, self.moves = goal, 0, 0

    def over(self):
        return self.place >= self.goal

    def move(self, steps):
        time.sleep(0.04)
        self.place += steps
        self.moves += 1
        return self.place


if __name__ == "__main__":
    ray.init(num_cpus=2)
    game = Game.remote(100)
    place = 0
    while not ray.get(game.over.remote()):
        place = ray.get(game.move.remote(1 + place % 5))
    print(place)
