"""The program waits for whichever part is ready, counts the tenths of a second without one, and starts what follows."""

import random
import time

import sundog as ray


@ray.remote
def part(number, seconds):
    time.sleep(seconds)
    return number


@ray.remote
def follow(number):
    time.sleep(0.05)
    return number * number


def main():
    ray.init(num_cpus=4)
    draw = random.Random(5)
    pending = [part.remote(number, draw.uniform(0.05, 0.18)) for number in range(30)]
    second, beats = [], 0
    while pending:
        done, pending = ray.wait(pending, num_returns=1, timeout=0.1)
        if not done:
            beats += 1
            continue
        second.append(follow.remote(done[0]))
    print(sum(ray.get(second)), beats >= 0)


if __name__ == "__main__":
    main()
