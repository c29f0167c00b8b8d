"""Each task draws on a canvas of its own; the canvases differ in one point."""

import numpy as np

import sundog as ray


@ray.remote
def draw(canvas, number):
    for n in range(60):
        canvas = canvas + np.roll(canvas, n) + number
    return float(canvas.mean())


if __name__ == "__main__":
    ray.init()
    refs = []
    for number in range(24):
        canvas = np.zeros((400, 400))
        canvas[200, number] = 1.0
        refs.append(draw.remote(canvas, number))
    print(max(ray.get(refs)))
