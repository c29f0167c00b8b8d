"""Parts of a log are parsed in tasks; the driver sessionises all of it alone."""

import time

import sundog as ray


@ray.remote
def parse(part):
    time.sleep(0.25)
    return [(n % 97, part * 1000 + n) for n in range(1000)]


@ray.remote
def sessionise(events):
    time.sleep(0.3)
    return {user for user, _ in events}


def main():
    ray.init(num_cpus=4)
    parts = ray.get([parse.remote(part) for part in range(8)])
    events = [event for part in parts for event in part]
    sessions = set().union(*ray.get([sessionise.remote(events[i::4]) for i in range(4)]))
    print(f"{len(sessions)} users")


if __name__ == "__main__":
    main()
