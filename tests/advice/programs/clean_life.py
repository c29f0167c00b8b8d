"""The game of life on strips: each step needs the edges of the step before."""

import numpy as np

import sundog as ray


@ray.remote
class Strip:
    def __init__(self, seed):
        self.cells = np.random.default_rng(seed).integers(0, 2, (100, 400))

    def edges(self):
        return self.cells[0], self.cells[-1]

    def step(self, above, below):
        grid = np.vstack([above, self.cells, below])
        around = sum(np.roll(np.roll(grid, y, 0), x, 1) for y in (-1, 0, 1) for x in (-1, 0, 1)) - grid
        self.cells = ((around == 3) | ((grid == 1) & (around == 2))).astype(int)[1:-1]
        return int(self.cells.sum())


ray.init(num_cpus=2)
strips = [Strip.remote(n) for n in range(2)]
for _ in range(30):
    edges = ray.get([strip.edges.remote() for strip in strips])
    alive = ray.get(
        [strip.step.remote(edges[n - 1][1], edges[(n + 1) % 2][0]) for n, strip in enumerate(strips)]
    )
print(sum(alive))
