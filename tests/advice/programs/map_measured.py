"""Addresses are sorted by their distance: map is given a function that asks a task for each of them."""

import time

import sundog as ray


@ray.remote
def distance(address):
    time.sleep(0.06)  # the map service
    return (address * 37) % 101


def near(addresses, limit):
    def measured(address):
        return ray.get(distance.remote(address)), address  # fault: get-in-loop

    return sorted(pair for pair in map(measured, addresses) if pair[0] < limit)


def main():
    ray.init(num_cpus=5)
    print(len(near(range(25), 60)))


if __name__ == "__main__":
    main()
