"""Ways to climb stairs: small cases are counted by a plain function."""

import sundog as ray


def count(steps):
    return 1 if steps < 2 else count(steps - 1) + count(steps - 2)


@ray.remote
def ways(steps):
    if steps < 14:
        return count(steps)
    return sum(ray.get([ways.remote(steps - 1), ways.remote(steps - 2)]))


if __name__ == "__main__":
    ray.init()
    print(ray.get(ways.remote(20)))
