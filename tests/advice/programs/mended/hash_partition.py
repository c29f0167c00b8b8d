"""Events go to the actor of their customer; one customer has most of them."""

import time

import sundog as ray


@ray.remote
class Aggregator:
    def __init__(self):
        self.totals = {}

    def add(self, customer, amount):
        time.sleep(0.01)
        self.totals[customer] = self.totals.get(customer, 0) + amount
        return self.totals[customer]


def main():
    ray.init(num_cpus=4)
    actors = [Aggregator.remote() for _ in range(4)]
    events = [(0 if i % 5 < 3 else i % 4, i) for i in range(240)]
    refs = []
    for number, (customer, amount) in enumerate(events):
        refs.append(actors[number % 4].add.remote(customer, amount))
    print(sum(ray.get(refs)))


if __name__ == "__main__":
    main()
