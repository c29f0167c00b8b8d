"""Trials report to an actor, which the driver asks for the state until all are done."""

import time

import sundog as ray


@ray.remote
class Board:
    def __init__(self):
        self.scores = {}

    def report(self, trial, score):
        self.scores[trial] = score

    def best(self):
        return max(self.scores.items(), key=lambda pair: pair[1], default=(None, 0))


@ray.remote
def trial(number, board):
    for step in range(5):
        time.sleep(0.06)
        ray.get(board.report.remote(number, step * number))
    return number


def main():
    ray.init(num_cpus=4)
    board = Board.remote()
    running = [trial.remote(number, board) for number in range(16)]
    while running:
        _, running = ray.wait(running, num_returns=len(running), timeout=0.25)
        print(f"{len(running)} running, best {ray.get(board.best.remote())}")


if __name__ == "__main__":
    main()
