"""Tasks report to an actor; the calls are short."""

import time

import sundog as ray


@ray.remote
class Progress:
    def __init__(self):
        self.done = 0

    def tick(self):
        self.done += 1

    def count(self):
        return self.done


@ray.remote
def work(progress, i):
    time.sleep(0.05)
    progress.tick.remote()
    return i


if __name__ == "__main__":
    ray.init(num_cpus=4)
    progress = Progress.remote()
    refs = [work.remote(progress, i) for i in range(80)]
    print(sum(ray.get(refs)), ray.get(progress.count.remote()) > 0)
