"""A model is trained in stages; each stage starts from the checkpoint of the one before."""

import time
from functools import reduce

import sundog as ray


@ray.remote
def stage(checkpoint, name):
    time.sleep(0.25)
    return [*checkpoint, name]


@ray.remote
def evaluate(checkpoint):
    time.sleep(0.1)
    return len(checkpoint)


if __name__ == "__main__":
    ray.init(num_cpus=4)
    names = ["warmup", "pretrain", "anneal", "finetune", "distil", "quantise"]
    last = reduce(stage.remote, names, ray.put([]))
    print(ray.get(evaluate.remote(last)))
