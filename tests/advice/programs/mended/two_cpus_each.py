"""Documents are converted by a program of one thread, with one CPU for each."""

import time

import sundog as ray


@ray.remote
def convert(page):
    time.sleep(0.12)  # an external program works
    return len(page)


def main():
    ray.init(num_cpus=2)
    pages = ["text " * n for n in range(1, 15)]
    print(sum(ray.get([convert.remote(page) for page in pages])))


main()
