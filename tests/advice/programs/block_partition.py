"""Items are dealt out to actors in blocks; the last block has the heavy ones."""

import time

import sundog as ray


@ray.remote
class Solver:
    def solve(self, size):
        time.sleep(size / 100)
        return size**2


def blocks(items, count):
    size = len(items) // count
    return [items[n * size : (n + 1) * size] for n in range(count)]


if __name__ == "__main__":
    ray.init(num_cpus=4)
    solvers = [Solver.options(max_concurrency=1).remote() for _ in range(4)]
    sizes = [2] * 30 + [12] * 10
    refs = []
    for solver, block in zip(solvers, blocks(sizes, 4)):
        refs.extend(solver.solve.remote(size) for size in block)  # fault: unbalanced-actors
    print(sum(ray.get(refs)))
