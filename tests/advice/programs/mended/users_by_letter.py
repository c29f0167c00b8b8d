"""Sessions are counted by actors that share the users by their number."""

import sundog as ray


@ray.remote
class Counter:
    def __init__(self):
        self.seen = {}

    def add(self, user, clicks):
        score = 0
        for click in range(clicks):
            score = (score * 31 + click) % 1_000_003
        self.seen[user] = score

    def total(self):
        return len(self.seen)


def main():
    ray.init()
    counters = [Counter.remote(), Counter.remote()]
    for number in range(120):
        user = f"{'k' if number % 10 == 0 else 'm'}{number}"
        counters[number % 2].add.remote(user, 100_000)
    print(sum(ray.get([counter.total.remote() for counter in counters])))


if __name__ == "__main__":
    main()
