"""A task for each country sums those of its cities."""

import time

import sundog as ray


@ray.remote
def city(country, n):
    time.sleep(0.15)
    return country * n


@ray.remote
def country(number):
    return sum(ray.get([city.remote(number, n) for n in range(6)]))


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(sum(ray.get([country.remote(number) for number in range(6)])))
