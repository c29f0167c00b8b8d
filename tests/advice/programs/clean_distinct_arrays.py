"""Each task gets an image of its own by value, once."""

import time

import numpy as np

import sundog as ray


@ray.remote
def blur(image):
    time.sleep(0.1)
    return float(image[::4].mean())


if __name__ == "__main__":
    ray.init(num_cpus=4)
    images = (np.full((300, 300), n, dtype=np.float32) for n in range(40))
    refs = []
    for image in images:
        refs.append(blur.remote(image))
    means = {}
    for n, ref in enumerate(refs):
        means[n] = ray.get(ref)
    print(max(means.values()))
