"""A trainer actor that loads its shards itself, and a statistics actor beside it."""

import time

import sundog as ray


@ray.remote
def load_shard(epoch, shard):
    time.sleep(0.15)
    return [epoch, shard]


@ray.remote
class Trainer:
    def __init__(self):
        self.seen = 0

    def epoch(self, number):
        shards = ray.get([load_shard.remote(number, shard) for shard in range(2)])  # fault: nested-get
        time.sleep(0.1)
        self.seen += len(shards)
        return self.seen


if __name__ == "__main__":
    ray.init(num_cpus=5)
    trainer = Trainer.remote()
    done = [trainer.epoch.remote(number) for number in range(8)]
    for number, ref in enumerate(done):
        print(f"epoch {number}: {ray.get(ref)} shards")
