"""Batches with a barrier, so that not everything is in memory at a time."""

import numpy as np

import sundog as ray


@ray.remote
def resize(image):
    out = image
    for _ in range(3):
        out = np.sqrt(np.abs(np.fft.fft2(out)))
    return float(out.mean())


if __name__ == "__main__":
    ray.init()
    rng = np.random.default_rng(0)
    total = 0.0
    for _batch in range(4):
        images = [rng.random((200, 200)) for _ in range(24)]
        total += sum(ray.get([resize.remote(image) for image in images]))
    print(total)
