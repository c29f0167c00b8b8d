"""A coordinator actor asks its workers one after the other."""

import time

import sundog


@sundog.remote
class Worker:
    def __init__(self, number):
        self.number = number

    def solve(self, part):
        time.sleep(0.05)
        return part * self.number


@sundog.remote
class Coordinator:
    def __init__(self, workers):
        self.workers = workers

    def solve(self, parts):
        answers = []
        for number, part in enumerate(parts):
            worker = self.workers[number % len(self.workers)]
            answers.append(worker.solve.remote(part))
        return sum(sundog.get(answers))


sundog.init(num_cpus=4)
team = [Worker.remote(n) for n in range(4)]
boss = Coordinator.remote(team)
print(sundog.get(boss.solve.remote(list(range(24)))))
