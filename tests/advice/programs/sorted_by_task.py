"""Pages are sorted; the key asks a task for each of them."""

import time

import sundog as ray


@ray.remote
def rank(page):
    time.sleep(0.05)
    return -len(page) % 7


def best(pages, count):
    return sorted(pages, key=lambda page: ray.get(rank.remote(page)))[:count]  # fault: get-in-loop


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(best([f"page{n}" * (n % 5) for n in range(24)], 3))
