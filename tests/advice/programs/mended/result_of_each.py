"""A sweep over learning rates, each trained and printed before the next one starts."""

import time

import sundog as ray

ray.init(num_cpus=6)


def trainable(function):
    """Make a task of a function, and wait for it where it is called."""
    remote = ray.remote(num_cpus=1)(function)

    def call(*args, **kwargs):
        return ray.get([remote.remote(*args, **kwargs)])[0]  # fault: get-in-loop

    call.start = remote.remote
    return call


@trainable
def train(lr, epochs=3):
    time.sleep(0.08 * epochs)
    return {"lr": lr, "loss": (lr - 0.1) ** 2}


rates = [10**-k for k in range(1, 7)] + [3 * 10**-k for k in range(1, 6)]
best = {"loss": float("inf")}
for outcome in ray.get([train.start(lr) for lr in rates]):
    print(f"{outcome['lr']:.1e} {outcome['loss']:.4f}")
    if outcome["loss"] < best["loss"]:
        best = outcome
print(best)
