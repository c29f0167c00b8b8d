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
            both = [evaluate.remote(checkpoint, split) for split in ("val", "test")]
            val, test = ray.get(both)  # fault: get-in-loop
            self.losses.append((val["loss"] + test["loss"], checkpoint.step))
            print(f"step {checkpoint.step}: {val['loss']:.4f}")
            i += 1
        return self

    @property
    def best(self):
        return min(self.losses)


if __name__ == "__main__":
    ray.init(num_cpus=8)
    found = Evaluator([Checkpoint(100 * n, f"ckpt-{n}.pt") for n in range(8)]).run()
    print(f"best: {found.best}")
