"""Ways to climb stairs, counted by tasks that start tasks down to the last step."""

import sundog as ray


@ray.remote
def ways(steps):
    if steps < 2:
        return 1
    return sum(ray.get([ways.remote(steps - 1), ways.remote(steps - 2)]))  # fault: tasks-too-small


if __name__ == "__main__":
    ray.init()
    print(ray.get(ways.remote(20)))
