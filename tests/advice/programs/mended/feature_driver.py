"""Each submission first makes its features in the program."""

import time

import sundog as ray

ray.init(num_cpus=4)


def features(item):
    out = []
    for k in range(30_000):
        out.append((item * k) % 97)
    return sum(out), len(out)


@ray.remote
def fit(item):
    total, size = features(item)
    time.sleep(0.001)
    return total / size


refs = []
for item in range(900):
    refs.append(fit.remote(item))
print(sum(ray.get(refs)))
