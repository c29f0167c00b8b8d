"""Blur an image tile by tile. Every task is handed the whole picture and its tile's place."""

import numpy as np

import sundog


@sundog.remote
def blur(image, top, left, size):
    tile = image[top : top + size, left : left + size].astype(np.float32)
    return (
        (tile[1:-1, 1:-1] + tile[:-2, 1:-1] + tile[2:, 1:-1] + tile[1:-1, :-2] + tile[1:-1, 2:]) / 5
    ).mean()


def main():
    sundog.init(num_cpus=2)
    image = np.random.default_rng(1).integers(0, 255, (4096, 4096, 3), dtype=np.uint8)
    image = sundog.put(image)
    size = 1024
    refs = []
    for top in range(0, 4096, size):
        for left in range(0, 4096, size):
            refs.append(blur.remote(image, top, left, size))
    print(np.mean(sundog.get(refs)))


main()
