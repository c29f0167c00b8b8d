"""Round robin over actors, where every third job is heavy."""

import time

import sundog as ray
from sundog.util import ActorPool

ray.init(num_cpus=3)


@ray.remote
class Encoder:
    def encode(self, seconds):
        time.sleep(seconds)
        return seconds


encoders = [Encoder.remote() for _ in range(3)]
jobs = [0.3 if i % 3 == 0 else 0.03 for i in range(24)]
print(sum(ActorPool(encoders).map_unordered(lambda actor, job: actor.encode.remote(job), jobs)))
