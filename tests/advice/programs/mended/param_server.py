"""Data parallel training with parameter servers that each take a part of the gradients."""

import time

import numpy as np

import sundog as ray


@ray.remote
class ParameterServer:
    def __init__(self, dim):
        self.params = np.zeros(dim)

    def apply(self, grad):
        time.sleep(0.03)  # writes a checkpoint
        self.params -= 0.1 * grad
        return self.params

    def read(self):
        return self.params


@ray.remote
def gradient(params, shard):
    time.sleep(0.02)
    return params * 0.01 + shard


def main(rounds=4, workers=8):
    ray.init(num_cpus=4)
    servers = [ParameterServer.remote(1000) for _ in range(4)]
    params = ray.get(servers[0].read.remote())
    for _ in range(rounds):
        grads = [gradient.remote(params, shard) for shard in range(workers)]
        params = ray.get([servers[n % 4].apply.remote(grad) for n, grad in enumerate(grads)])[-1]
    print(params.sum())


main()
