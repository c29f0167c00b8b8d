"""The addresses go to four geocoders."""

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
def route(geocoders, addresses):
    places = ray.get([geocoders[address % 4].locate.remote(address) for address in addresses])
    return sum(x + y for x, y in places)


if __name__ == "__main__":
    ray.init(num_cpus=4)
    geocoders = [Geocoder.options(name=f"geocoder-{n}", num_cpus=0).remote() for n in range(4)]
    print(sum(ray.get([route.remote(geocoders, range(n, n + 8)) for n in range(8)])))
