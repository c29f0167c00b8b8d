"""Workers report to one logger actor, which is not what takes the time."""

import time

import sundog as ray


@ray.remote
class Logger:
    def __init__(self):
        self.lines = []

    def log(self, line):
        self.lines.append(line)

    def count(self):
        return len(self.lines)


@ray.remote
def work(n, logger):
    for step in range(4):
        time.sleep(0.05)
        logger.log.remote(f"{n}/{step}")
    return n


if __name__ == "__main__":
    ray.init(num_cpus=4)
    logger = Logger.options(num_cpus=0).remote()
    print(sum(ray.get([work.remote(n, logger) for n in range(20)])))
    print(ray.get(logger.count.remote()))
