"""A Pool checks each number in a task of its own."""

import sundog as ray
from sundog.util.multiprocessing import Pool


def is_square(n):
    root = int(n**0.5)
    return root * root == n


if __name__ == "__main__":
    ray.init(num_cpus=2)
    with Pool(processes=2) as pool:
        found = pool.map(is_square, range(30_000), chunksize=3_000)
    print(sum(found))
