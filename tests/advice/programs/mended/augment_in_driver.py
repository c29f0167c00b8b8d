"""The driver augments each sample before a task trains on it."""

import time

import numpy as np

import sundog as ray

ray.init(num_cpus=4)


@ray.remote
def learn(sample):
    time.sleep(0.01)
    return float(sample.mean())


@ray.remote
def augment_and_learn(seed):
    sample = augment(seed)
    time.sleep(0.01)
    return float(sample.mean())


def augment(seed):
    sample = np.random.default_rng(seed).normal(size=1000)
    time.sleep(0.012)
    return np.roll(sample, seed)


losses = [augment_and_learn.remote(seed) for seed in range(150)]
print(f"{np.mean(ray.get(losses)):.4f}")
