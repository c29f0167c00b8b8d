"""The program looks every half second whether a batch is done."""

import time

import sundog as ray


@ray.remote
def convert(clip):
    time.sleep(0.1)
    return clip + 1


def finished(refs):
    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
    return len(ready) == len(refs)


ray.init(num_cpus=4)
total = 0
for batch in range(4):
    refs = [convert.remote(batch * 8 + clip) for clip in range(8)]
    while not finished(refs):
        time.sleep(0.5)  # fault: polling
    total += sum(ray.get(refs))
print(total)
