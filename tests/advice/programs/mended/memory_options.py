"""Each tile asks for far more memory than it needs, so that two run at a time."""

import time

import numpy as np

import sundog as ray


@ray.remote(max_retries=0)
def blur(tile):
    image = np.zeros((256, 256))
    time.sleep(0.2)
    return tile, float(image.mean())


def tiles(count):
    for tile in range(count):
        yield blur.options(memory=120 * 1024**2).remote(tile)


if __name__ == "__main__":
    ray.init(num_cpus=6, _memory=2 * 1024**3)
    found = dict(ray.get(list(tiles(18))))
    print(len(found))
