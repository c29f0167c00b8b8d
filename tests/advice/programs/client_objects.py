"""A small client for a service: each object fetches its own page."""

import time
from typing import NamedTuple

import sundog as ray


class Page(NamedTuple):
    url: str
    size: int


@ray.remote(num_cpus=0.5)
def download(url, retries=2):
    time.sleep(0.2)
    return Page(url, len(url) * retries)


class Client:
    def __init__(self, base, number):
        self.url = f"{base}/{number}"

    def fetch(self):
        page = ray.get(download.remote(self.url))  # fault: get-in-loop
        return page.size


def main(count=12):
    ray.init(num_cpus=4)
    clients = [Client("https://example.org", number) for number in range(count)]
    sizes = [client.fetch() for client in clients]  # fault: get-in-loop
    print(f"{sum(sizes)} bytes in {len(sizes)} pages")


if __name__ == "__main__":
    main()
