"""An actor class that is given the ref of a large table."""

import numpy as np

import sundog as ray


def make():
    class Lookup:
        def __init__(self, table, offset):
            self.table = table
            self.offset = offset

        def find(self, place):
            return float(self.table[place]) + self.offset

    return ray.remote(Lookup)


def main():
    ray.init(num_cpus=4)
    Lookup = make()
    table = ray.put(np.random.default_rng(0).random(12_000_000))
    lookups = [Lookup.remote(table, offset) for offset in range(4)]
    print(sum(ray.get([lookup.find.remote(7) for lookup in lookups])))


if __name__ == "__main__":
    main()
