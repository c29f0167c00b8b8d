"""The program waits for what is ready."""

import time

import sundog as ray


@ray.remote
def download(number):
    time.sleep(0.11)
    return number


def collect(refs):
    done = []
    while refs:
        ready, refs = ray.wait(refs)
        done += ray.get(ready)
    return done


ray.init(num_cpus=3)
total = 0
for page in range(5):
    total += sum(collect([download.remote(page * 3 + n) for n in range(3)]))
print(total)
