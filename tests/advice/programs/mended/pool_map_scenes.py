"""The twin of pool_map_scenes: mended."""

import time

import sundog
from sundog.util.multiprocessing import Pool


def render(frame):
    time.sleep(0.05)
    return frame * 2


def main():
    sundog.init(num_cpus=4)
    with Pool(4) as pool:
        done = pool.map(render, range(20), chunksize=1)
        print(sum(done))


if __name__ == "__main__":
    main()
