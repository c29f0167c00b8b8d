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
def fit(total, size):
    time.sleep(0.001)
    return total / size


refs = []
for item in range(900):
    total, size = features(item)  # fault: driver-bound
    refs.append(fit.remote(total, size))
print(sum(ray.get(refs)))
