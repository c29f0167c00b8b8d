"""Results are all kept, and looked at again and again."""

import numpy as np

import sundog as ray

ray.init(num_cpus=2, object_store_memory=500_000_000)


@ray.remote
def render(frame):
    return np.full((1500, 1500), frame, dtype=np.float64)


@ray.remote
def brightness(image):
    return float(image[::10, ::10].mean())


images = [render.remote(i) for i in range(16)]
for _round in range(3):
    print(sum(ray.get([brightness.remote(image) for image in images])))
