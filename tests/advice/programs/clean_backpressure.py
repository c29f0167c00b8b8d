"""At most eight in flight; results are written as they come."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def work(i):
    time.sleep(0.03 + 0.02 * (i % 3))
    return i


flight, total = [], 0
for i in range(80):
    if len(flight) >= 8:
        done, flight = ray.wait(flight, num_returns=1)
        total += ray.get(done[0])
    flight.append(work.remote(i))
total += sum(ray.get(flight))
print(total)
