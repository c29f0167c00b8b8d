"""The program waits for a batch, and goes on as soon as it is done."""

import time

import sundog as ray


@ray.remote
def convert(clip):
    time.sleep(0.1)
    return clip + 1


ray.init(num_cpus=4)
total = 0
for batch in range(4):
    refs = [convert.remote(batch * 8 + clip) for clip in range(8)]
    total += sum(ray.get(refs))
print(total)
