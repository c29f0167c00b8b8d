"""Workers write to a queue; the program looks four times a second how much is in it."""

import time

import sundog as ray
from sundog.util.queue import Queue


@ray.remote
def encode(queue, clip):
    time.sleep(0.03 * (1 + clip % 3))
    queue.put((clip, clip * 3))


def collect(queue, count):
    found = []
    while len(found) < count:
        if queue.empty():
            time.sleep(0.25)  # fault: polling
            continue
        found.append(queue.get())
    return found


def main():
    ray.init(num_cpus=4)
    queue = Queue()
    total = 0
    for album in range(5):
        for clip in range(8):
            encode.remote(queue, album * 8 + clip)
        total += sum(size for _, size in collect(queue, 8))
    print(total)


if __name__ == "__main__":
    main()
