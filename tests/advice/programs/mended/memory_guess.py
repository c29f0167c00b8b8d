"""Each task asks for a gigabyte to be safe."""

import time

import sundog

sundog.init(num_cpus=4, _memory=2 * 2**30)


@sundog.remote(memory=200 * 2**20)
def render(page):
    canvas = bytearray(4_000_000)
    time.sleep(0.1)
    return len(canvas) + page


print(sum(sundog.get([render.remote(page) for page in range(16)])))
