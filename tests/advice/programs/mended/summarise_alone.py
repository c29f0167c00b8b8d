"""Rounds of tasks; after each the driver writes a long summary before the next round."""

import time

import sundog as ray


@ray.remote
def measure(sensor, hour):
    time.sleep(0.1)
    return sensor * hour


def summarise(values):
    time.sleep(0.3)  # plots and a PDF
    return sum(values)


@ray.remote
def summarise_later(*values):
    return summarise(values)


if __name__ == "__main__":
    ray.init(num_cpus=4)
    summaries = []
    for hour in range(6):
        values = ray.get([measure.remote(sensor, hour) for sensor in range(4)])
        summaries.append(summarise_later.remote(*values))
    print(ray.get(summaries))
