"""Events go to the aggregator of their customer; one customer sends most of them."""

import time
from collections import Counter

import sundog as ray


@ray.remote
class Aggregator:
    def __init__(self):
        self.totals = Counter()

    def add(self, customer, amount):
        time.sleep(0.04)
        self.totals[customer] += amount
        return amount

    def report(self):
        return dict(self.totals)


def events():
    for n in range(60):
        yield (0 if n % 10 < 7 else n % 4), n


if __name__ == "__main__":
    ray.init(num_cpus=4)
    pool = {n: Aggregator.remote() for n in range(4)}
    pending = []
    for n, (customer, amount) in enumerate(events()):
        pending.append(pool[n % len(pool)].add.remote(customer, amount))
    print(sum(ray.get(pending)))
    print([ray.get(each.report.remote()) for each in pool.values()])
