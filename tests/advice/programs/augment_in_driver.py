"""The driver augments each sample before a task trains on it."""

import time

import numpy as np

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def learn(sample):
    time.sleep(0.01)
    return float(sample.mean())


def augment(seed):
    sample = np.random.default_rng(seed).normal(size=1000)
    time.sleep(0.012)
    return np.roll(sample, seed)


losses = []
for seed in range(150):
    losses.append(learn.remote(augment(seed)))  # fault: driver-bound
print(f"{np.mean(ray.get(losses)):.4f}")
