"""Training rows are built by a repository class; which of its methods waits is two layers down."""

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

    def _fetch(self, user):
        self.reads += 1
        ref = self._source.remote(user)
        return ray.get(ref)  # fault: get-in-loop

    def row(self, user):
        events = self._fetch(user)
        return Row(user, sum(events), sum(events) % 2 == 0)


def build(repository, users):
    rows = {}
    for user in users:
        rows[user] = repository.row(user)
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
