"""Frames are stored by the driver and read in two passes."""

from dataclasses import dataclass

import numpy as np

import sundog as ray


@dataclass
class Video:
    frames: list

    def store(self):
        return [ray.put(frame) for frame in self.frames]


@ray.remote
def brightness(frame, step):
    return float(frame[::step].mean())


if __name__ == "__main__":
    ray.init(num_cpus=2, object_store_memory=500 * 2**20)
    stored = Video([np.full((1000, 1500), float(n)) for n in range(20)]).store()
    for step in (10, 100, 10, 100):
        print(max(ray.get([brightness.remote(frame, step) for frame in stored])))
