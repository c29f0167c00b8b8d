"""Round robin over actors, where every third job is heavy."""

import time

import sundog as ray

ray.init(num_cpus=3)


@ray.remote
class Encoder:
    def encode(self, seconds):
        time.sleep(seconds)
        return seconds


encoders = [Encoder.remote() for _ in range(3)]
jobs = [0.3 if i % 3 == 0 else 0.03 for i in range(24)]
refs = [encoders[i % 3].encode.remote(job) for i, job in enumerate(jobs)]  # fault: unbalanced-actors
print(sum(ray.get(refs)))
