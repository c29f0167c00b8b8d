"""All are submitted first; then they are read one by one."""

import time

import sundog as ray


@ray.remote
def measure(place):
    time.sleep(0.07)
    return place % 7


def main():
    ray.init(num_cpus=4)
    refs = {place: measure.remote(place) for place in range(32)}
    found = {}
    for place, ref in refs.items():
        found[place] = ray.get(ref)
    print(sum(found.values()))


main()
