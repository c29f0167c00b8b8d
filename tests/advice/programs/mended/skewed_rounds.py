"""Rounds of a simulation over regions; the large one is cut into districts."""

import time

import sundog as ray

REGIONS = {"north": 1, "east": 1, "south": 1, "west": 1, "hills": 1, "capital": 8}


@ray.remote
def advance(name, size, state):
    time.sleep(0.03 * size)
    return state + size


def main():
    ray.init(num_cpus=4)
    state = 0
    for _ in range(5):
        refs = [advance.remote(name, 1, state) for name, size in REGIONS.items() for _ in range(size)]
        state = sum(ray.get(refs))
    print(state)


main()
