"""A helper looks an address up and returns early where there is none; a loop calls it for each street."""

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


def resolve(street) -> Address | None:
    if not street:
        return None
    found = ray.get(lookup.remote(street))  # fault: get-in-loop
    if found is None:
        return Address(street, False)
    return Address(found, True)


def report(streets):
    groups = {True: [], False: []}
    for street in streets:
        address = resolve(street)
        if address is None:
            continue
        groups[address.valid].append(address)
    return groups


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print({key: len(each) for key, each in report([f"street {'x' * (n % 7)}" for n in range(28)]).items()})
