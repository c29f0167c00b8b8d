"""Add up many arrays in a tree: log2(n) rounds instead of one long chain.

The references of one round are the arguments of the next, so the driver describes the whole tree at once and
fetches one array at the end. The same sum as a chain, and by recursion inside the tasks, must agree.
"""

import numpy as np
import ray

LEAVES = 16
SIZE = 50_000


@ray.remote
def make_leaf(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1000, size=SIZE)


@ray.remote
def add(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left + right


@ray.remote
def add_range(first: int, last: int) -> np.ndarray:
    """The same tree, grown from inside: every task starts the two halves of its own range."""
    if last - first == 1:
        return ray.get(make_leaf.remote(first))
    middle = (first + last) // 2
    left, right = ray.get([add_range.remote(first, middle), add_range.remote(middle, last)])
    return left + right


def tree(refs: list) -> "ray.ObjectRef":
    rounds = 0
    while len(refs) > 1:
        paired = [add.remote(a, b) for a, b in zip(refs[::2], refs[1::2], strict=False)]
        refs = paired + ([refs[-1]] if len(refs) % 2 else [])
        rounds += 1
    print(f"tree: {rounds} rounds")
    return refs[0]


def chain(refs: list) -> "ray.ObjectRef":
    total, *rest = refs
    for ref in rest:
        total = add.remote(total, ref)
    print(f"chain: {len(rest)} rounds")
    return total


def main() -> None:
    ray.init()
    leaves = [make_leaf.remote(seed) for seed in range(LEAVES)]
    by_tree, by_chain = ray.get([tree(leaves), chain(leaves)])
    by_recursion = ray.get(add_range.remote(0, LEAVES))
    print(f"first five sums: {by_tree[:5].tolist()}")
    print(f"total: {int(by_tree.sum())}")
    print(f"all three agree: {np.array_equal(by_tree, by_chain) and np.array_equal(by_tree, by_recursion)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
