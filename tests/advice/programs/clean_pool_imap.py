"""Values are taken from a pool as it gives them, in order and out of order."""

import time

import sundog
from sundog.util.multiprocessing import Pool


def parse(n):
    time.sleep(0.04)
    return n


if __name__ == "__main__":
    sundog.init(num_cpus=4)
    total = 0
    with Pool(4) as pool:
        for value in pool.imap(parse, range(60)):
            total += value
        for value in pool.imap_unordered(parse, range(40)):
            total += value
    print(total)
