"""Rollouts get the policy as a keyword argument, by value, in each round."""

import numpy as np

import sundog as ray


@ray.remote
def rollout(seed, *, policy):
    rng = np.random.default_rng(seed)
    state = rng.normal(size=policy["w1"].shape[0])
    return float(np.tanh(state @ policy["w1"][:, :8]).sum())


def main(rounds=3, per_round=12):
    ray.init(num_cpus=2)
    rng = np.random.default_rng(1)
    policy = {"w1": rng.normal(size=(1500, 1500)), "b1": np.zeros(1500)}
    returns = []
    policy_ref = ray.put(policy)
    for number in range(rounds):
        refs = []
        for seed in range(per_round):
            refs.append(rollout.remote(seed + 100 * number, policy=policy_ref))
        returns.append(np.mean(ray.get(refs)))
        print(f"round {number}: {returns[-1]:.3f}")


if __name__ == "__main__":
    main()
