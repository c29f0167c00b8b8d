"""Tasks ask a cache actor for their features before they score."""

import time

import sundog as ray


@ray.remote
class Cache:
    def __init__(self):
        self.hits = 0

    def features(self, user):
        time.sleep(0.06)
        return [user % 7, user % 11]


@ray.remote
def score(user, cache):
    one, two = ray.get(cache.features.remote(user))
    time.sleep(0.02)
    return one * two


if __name__ == "__main__":
    ray.init(num_cpus=4)
    cache = Cache.remote()  # fault: one-actor
    refs = [score.remote(user, cache) for user in range(32)]
    total = 0
    for ref in refs:
        total += ray.get(ref)
    print(total)
