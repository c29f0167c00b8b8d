"""The twin of sorted_by_task: mended."""

import time

import sundog as ray


@ray.remote
def rank(page):
    time.sleep(0.05)
    return -len(page) % 7


def best(pages, count):
    ranks = dict(zip(range(len(pages)), ray.get([rank.remote(page) for page in pages])))
    return [pages[n] for n in sorted(ranks, key=ranks.get)[:count]]


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(best([f"page{n}" * (n % 5) for n in range(24)], 3))
