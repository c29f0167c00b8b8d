"""Frames are decoded by a generator task and worked on while the next ones come."""

import time

import numpy as np

import sundog


@sundog.remote(num_returns="streaming")
def decode(count):
    for number in range(count):
        time.sleep(0.04)
        yield np.full((64, 64), number, dtype=np.uint8)


@sundog.remote
def detect(frame):
    time.sleep(0.03)
    return int(frame[0, 0])


sundog.init(num_cpus=4)
found = [detect.remote(ref) for ref in decode.remote(20)]
print(sum(sundog.get(found)))
