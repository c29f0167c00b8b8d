"""The twin of feature_repository: all reads are sent out, then the rows are made."""

import argparse
import time
from typing import NamedTuple

import sundog as ray


class Row(NamedTuple):
    user: int
    clicks: int
    label: bool


@ray.remote
def read_events(user):
    time.sleep(0.06)  # the warehouse
    return [(user * 7 + n) % 13 for n in range(200)]


class Repository:
    def __init__(self, source):
        self._source = source
        self.reads = 0

    def fetch(self, users):
        self.reads += len(users)
        return ray.get([self._source.remote(user) for user in users])


def build(repository, users):
    rows = {}
    for user, events in zip(users, repository.fetch(users)):
        rows[user] = Row(user, sum(events), sum(events) % 2 == 0)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=24)
    arguments = parser.parse_args()
    ray.init(num_cpus=4)
    repository = Repository(read_events)
    rows = build(repository, range(arguments.users))
    print(sum(row.label for row in rows.values()), repository.reads)


if __name__ == "__main__":
    main()
