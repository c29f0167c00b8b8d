"""A few frames are asked for ahead of the one that the program works on."""

import time

import numpy as np

import sundog as ray


@ray.remote
def frame(number):
    return np.full((1200, 1000), number, dtype=np.float64)


def encode(image):
    time.sleep(0.01)
    return float(image[0, 0])


if __name__ == "__main__":
    ray.init(num_cpus=2, object_store_memory=90_000_000)
    refs = [frame.remote(number) for number in range(4)]
    total, asked = 0.0, 4
    while refs:
        total += encode(ray.get(refs.pop(0)))
        if asked < 40:
            refs.append(frame.remote(asked))
            asked += 1
    print(total)
