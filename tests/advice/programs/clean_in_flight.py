"""No more than eight chunks at a time, so that memory stays small."""

import time

import sundog as ray

MAX = 8


@ray.remote
def process(chunk):
    time.sleep(0.1)
    return sum(chunk)


def chunks():
    for n in range(48):
        yield list(range(n, n + 10))


def main():
    ray.init(num_cpus=4)
    in_flight, total = [], 0
    for chunk in chunks():
        if len(in_flight) >= MAX:
            done, in_flight = ray.wait(in_flight, num_returns=1)
            total += sum(ray.get(done))
        in_flight.append(process.remote(chunk))
    total += sum(ray.get(in_flight))
    print(total)


main()
