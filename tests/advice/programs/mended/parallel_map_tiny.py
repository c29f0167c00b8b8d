"""The twin of parallel_map_tiny: a task for each thousand items."""

import math
from functools import partial

import sundog as ray


@ray.remote
def call(function, items):
    return [function(item) for item in items]


def parallel_map(function, items, size=1000):
    refs = [call.remote(function, items[n : n + size]) for n in range(0, len(items), size)]
    return [result for part in ray.get(refs) for result in part]


def haversine(origin, point):
    (lat, lon), (other_lat, other_lon) = origin, point
    a = math.sin((other_lat - lat) / 2) ** 2
    a += math.cos(lat) * math.cos(other_lat) * math.sin((other_lon - lon) / 2) ** 2
    return 12_742 * math.asin(math.sqrt(a))


def main():
    ray.init()
    points = [(n % 90 / 60, n % 180 / 60) for n in range(12_000)]
    distances = parallel_map(partial(haversine, (0.84, 0.23)), points)
    print(round(max(distances)))


if __name__ == "__main__":
    main()
