"""Each shard's task reserves memory by a constant that was meant for the whole job."""

import time

import sundog as ray

JOB_MEMORY = 1500 * 1024 * 1024


@ray.remote
class Stats:
    def __init__(self):
        self.rows = 0

    def add(self, rows):
        self.rows += rows
        return self.rows


@ray.remote
def scan(shard):
    time.sleep(0.2)
    return shard * 10


if __name__ == "__main__":
    ray.init(num_cpus=6, _memory=4_000 * 1024 * 1024)
    stats = Stats.remote()
    big_scan = scan.options(memory=JOB_MEMORY // 10)
    totals = [stats.add.remote(big_scan.remote(shard)) for shard in range(18)]
    print(max(ray.get(totals)))
