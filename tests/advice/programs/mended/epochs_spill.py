"""Blocks are made once and read in each epoch; the store is too small for them."""

import numpy as np

import sundog as ray

ray.init(num_cpus=2, object_store_memory=600 * 1024 * 1024)


@ray.remote
def make_block(seed):
    return np.full(2_000_000, float(seed))


@ray.remote
def epoch_sum(block, scale):
    return float(block[::50].sum() * scale)


blocks = [make_block.remote(seed) for seed in range(16)]
for epoch in range(4):
    total = sum(ray.get([epoch_sum.remote(block, epoch + 1) for block in blocks]))
    print(f"epoch {epoch}: {total:.0f}")
