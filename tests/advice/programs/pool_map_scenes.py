"""A pool of four is given the two frames of one scene, and awaited, scene after scene."""

import time

import sundog
from sundog.util.multiprocessing import Pool


def render(frame):
    time.sleep(0.05)
    return frame * 2


def main():
    sundog.init(num_cpus=4)
    with Pool(4) as pool:
        done = []
        for scene in range(10):
            frames = [scene * 2, scene * 2 + 1]
            done.extend(pool.map(render, frames))  # fault: get-in-loop
        print(sum(done))


if __name__ == "__main__":
    main()
