"""Particles move in tasks; the driver sorts them into cells between the steps."""

import time

import sundog


@sundog.remote
def move(cells, dt):
    time.sleep(0.04)
    return [x + dt for x in cells]


@sundog.remote
def rebin(parts):
    """A quarter of them."""
    everything = [x for part in parts for x in part]
    for _ in range(6):
        everything.sort(key=lambda x: sum(divmod(x, k + 1)[1] for k in range(60)))
    return [everything[n::4] for n in range(4)]


sundog.init(num_cpus=4)
parts = [[float(n + k) for k in range(150)] for n in range(4)]
for _ in range(6):
    parts = sundog.get([move.remote(part, 0.1) for part in parts])
    sundog.get([rebin.remote(parts) for _ in range(4)])
print(sum(map(sum, parts)))
