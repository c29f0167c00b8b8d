"""Evaluate checkpoints, with a class that keeps the best."""

import time
from dataclasses import dataclass, field

import sundog as ray


@dataclass
class Checkpoint:
    step: int
    path: str


@ray.remote
def evaluate(checkpoint, split):
    time.sleep(0.25 if split == "val" else 0.15)
    return {"loss": 1.0 / (1 + checkpoint.step), "split": split}


@dataclass
class Evaluator:
    checkpoints: list
    losses: list = field(default_factory=list)

    def run(self):
        i = 0
        while i < len(self.checkpoints):
            checkpoint = self.checkpoints[i]
            self.losses.append([evaluate.remote(checkpoint, "val"), evaluate.remote(checkpoint, "test")])
            i += 1
        for position, pair in enumerate(self.losses):
            val, test = ray.get(pair)
            self.losses[position] = (val["loss"] + test["loss"], self.checkpoints[position].step)
            print(f"step {self.checkpoints[position].step}: {val['loss']:.4f}")
        return self

    @property
    def best(self):
        return min(self.losses)


if __name__ == "__main__":
    ray.init(num_cpus=8)
    found = Evaluator([Checkpoint(100 * n, f"ckpt-{n}.pt") for n in range(8)]).run()
    print(f"best: {found.best}")
