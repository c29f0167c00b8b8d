"""All addresses go through one named geocoder."""

import time

import sundog as ray


@ray.remote
class Geocoder:
    def __init__(self):
        self.asked = 0

    def locate(self, address):
        self.asked += 1
        time.sleep(0.02)
        return (address % 180, address % 90)


@ray.remote
def route(geocoder, addresses):
    places = ray.get([geocoder.locate.remote(address) for address in addresses])
    return sum(x + y for x, y in places)


if __name__ == "__main__":
    ray.init(num_cpus=4)
    geocoder = Geocoder.options(name="geocoder", num_cpus=0).remote()  # fault: one-actor
    print(sum(ray.get([route.remote(geocoder, range(n, n + 8)) for n in range(8)])))
