"""An actor class with a large table in its body: the table goes with the class to every process."""

import numpy as np

import sundog as ray


def make():
    class Lookup:  # fault: closure
        table = np.random.default_rng(0).random(12_000_000)

        def __init__(self, offset):
            self.offset = offset

        def find(self, place):
            return float(self.table[place]) + self.offset

    return ray.remote(Lookup)


def main():
    ray.init(num_cpus=4)
    Lookup = make()
    lookups = [Lookup.remote(offset) for offset in range(4)]
    print(sum(ray.get([lookup.find.remote(7) for lookup in lookups])))


if __name__ == "__main__":
    main()
