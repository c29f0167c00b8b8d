"""A general helper maps any function over any items with a task for each; here each item takes some microseconds."""

import math
from functools import partial

import sundog as ray


@ray.remote
def call(function, item):
    return function(item)


def parallel_map(function, items):
    refs = [call.remote(function, item) for item in items]  # fault: tasks-too-small
    return ray.get(refs)


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
