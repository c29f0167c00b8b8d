"""A program without a fault: nothing may be found in it. Run by tests/advice/table.py."""

import time

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
class Worker:
    def gradient(self, params):
        time.sleep(0.15)


workers = [Worker.remote() for _ in range(4)]
params = 0
for _ in range(5):
    gradients = ray.get([worker.gradient.remote(params) for worker in workers])
    params = params + len(gradients)
