"""The twin of address_helper: mended."""

import time
from typing import NamedTuple

import sundog as ray


class Address(NamedTuple):
    street: str
    valid: bool


@ray.remote
def lookup(street):
    time.sleep(0.05)
    return street.title() if len(street) % 3 else None


def report(streets):
    groups = {True: [], False: []}
    for street, found in zip(streets, ray.get([lookup.remote(street) for street in streets])):
        groups[found is not None].append(Address(found or street, found is not None))
    return groups


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print({key: len(each) for key, each in report([f"street {'x' * (n % 7)}" for n in range(28)]).items()})
