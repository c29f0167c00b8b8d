"""Images are resized two at a time, though eight could be."""

import time

import sundog as ray


@ray.remote
def resize(image):
    time.sleep(0.22)
    return {"image": image, "size": (64, 64)}


def in_batches(items, size):
    for start in range(0, len(items), size):
        yield items[start : start + size]


if __name__ == "__main__":
    ray.init(num_cpus=8)
    images = [f"img_{n:03}.png" for n in range(24)]
    done = []
    for batch in in_batches(images, 2):
        done.extend(ray.get([resize.remote(image) for image in batch]))  # fault: get-in-loop
        print(f"{len(done) / len(images):.0%}", end="\r")
    print(len(done), done[-1]["size"])
