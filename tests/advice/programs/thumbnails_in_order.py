"""Thumbnails are written in the order of the pictures, though some pictures take long."""

import time

import numpy as np

import sundog as ray


@ray.remote(num_cpus=1)
def shrink(number, size):
    time.sleep(size)
    return np.full((64, 64), number)


def write(picture):
    time.sleep(0.05)
    return picture.sum()


def main():
    ray.init(num_cpus=4)
    sizes = [0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    refs = {number: shrink.remote(number, size) for number, size in enumerate(sizes)}
    written = []
    for _number, ref in refs.items():
        written.append(write(ray.get(ref)))  # fault: get-in-order
    print(sum(written))


if __name__ == "__main__":
    main()
