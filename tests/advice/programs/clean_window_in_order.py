"""Results are written in order, so the oldest is taken; twelve are in flight at most, so that memory is bounded."""

import time
from collections import deque

import sundog as ray


@ray.remote
def resize(frame):
    time.sleep(0.04 + 0.01 * (frame % 3))
    return bytes([frame % 256]) * 1000


class Writer:
    def __init__(self):
        self.size = 0

    def write(self, data):
        time.sleep(0.001)
        self.size += len(data)


def resized(frames, window=12):
    flight = deque()
    for frame in frames:
        flight.append(resize.remote(frame))
        if len(flight) >= window:
            yield ray.get(flight.popleft())
    while flight:
        yield ray.get(flight.popleft())


if __name__ == "__main__":
    ray.init(num_cpus=4)
    writer = Writer()
    for data in resized(range(90)):
        writer.write(data)
    print(writer.size)
