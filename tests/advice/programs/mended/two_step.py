"""Download, then thumbnail: the driver fetches each download before it sends it on."""

import time

import sundog as ray


@ray.remote
def download(key):
    time.sleep(0.04)
    return b"x" * 10_000


@ray.remote
def thumbnail(data):
    time.sleep(0.05)
    return len(data) // 10


def process(keys):
    return ray.get([thumbnail.remote(download.remote(key)) for key in keys])


ray.init(num_cpus=4)
print(sum(process(range(12))))
