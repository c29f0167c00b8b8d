"""Every task asks for far more memory than it uses."""

import time

import numpy as np

import sundog as ray

GB = 1024**3


@ray.remote
def convert(number):
    data = np.ones(500_000) * number
    time.sleep(0.15)
    return float(data.sum())


def main():
    ray.init(num_cpus=4, _memory=4 * GB)
    heavy = convert.options(memory=3 * GB)  # fault: memory-bound
    refs = [heavy.remote(i) for i in range(16)]
    print(sum(ray.get(refs)))


if __name__ == "__main__":
    main()
