"""Data parallel training with a parameter server that every worker sends its gradient to."""

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
    server = ParameterServer.remote(1000)  # fault: one-actor
    params = ray.get(server.read.remote())
    for _ in range(rounds):
        grads = [gradient.remote(params, shard) for shard in range(workers)]
        params = ray.get([server.apply.remote(grad) for grad in grads])[-1]
    print(params.sum())


main()
