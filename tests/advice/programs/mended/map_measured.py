"""The twin of map_measured: all are measured at once."""

import time

import sundog as ray


@ray.remote
def distance(address):
    time.sleep(0.06)  # the map service
    return (address * 37) % 101


def near(addresses, limit):
    found = ray.get([distance.remote(each) for each in addresses])
    return sorted(pair for pair in zip(found, addresses) if pair[0] < limit)


def main():
    ray.init(num_cpus=5)
    print(len(near(range(25), 60)))


if __name__ == "__main__":
    main()
