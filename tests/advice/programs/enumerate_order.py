"""Regions of a map are rendered by tasks, and packed by the driver as they come in the list."""

import time
from collections import deque

import sundog as ray


@ray.remote
def region(name, detail):
    time.sleep(detail)
    return name * 3


class Packer:
    def __init__(self):
        self.parts = deque()

    def pack(self, text):
        time.sleep(0.11)
        self.parts.append(text.encode())


def main():
    ray.init(num_cpus=5)
    details = [1.4, 0.3, 0.2, 0.35, 0.25, 0.3, 0.2, 0.3, 0.25, 0.2]
    refs = [region.remote(f"r{n}", detail) for n, detail in enumerate(details)]
    packer = Packer()
    for n, ref in enumerate(refs, 1):
        text = ray.get(ref)  # fault: get-in-order
        packer.pack(text)
        print(f"{n}/{len(refs)} packed")
    print(sum(map(len, packer.parts)))


main()
