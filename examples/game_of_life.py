"""Conway's game of life on a grid of actors.

The board is a torus cut into blocks, one asyncio actor each. To take a step a block asks its eight neighbours
for their edges of the same generation, so the blocks keep each other in time; the driver only says how far.
"""

import asyncio

import numpy as np
import ray

GRID = 3
BLOCK = 6
SIZE = GRID * BLOCK

GLIDER = ((0, 1), (1, 2), (2, 0), (2, 1), (2, 2))
BLINKER = ((10, 9), (10, 10), (10, 11))
SIDES = [(dr, dc) for dr in (-1, 0, 1) for dc in (-1, 0, 1) if (dr, dc) != (0, 0)]


def count_neighbours(padded: np.ndarray) -> np.ndarray:
    height, width = padded.shape[0] - 2, padded.shape[1] - 2
    return sum(padded[1 + dr : 1 + dr + height, 1 + dc : 1 + dc + width] for dr, dc in SIDES)


def next_generation(padded: np.ndarray) -> np.ndarray:
    around = count_neighbours(padded)
    return ((around == 3) | ((padded[1:-1, 1:-1] == 1) & (around == 2))).astype(np.int8)


@ray.remote
class Block:
    def __init__(self, cells: np.ndarray) -> None:
        self.history = [np.array(cells)]
        self.grown = asyncio.Condition()
        self.neighbours: dict[tuple[int, int], ray.actor.ActorHandle] = {}

    async def meet(self, neighbours: "dict[tuple[int, int], ray.actor.ActorHandle]") -> None:
        self.neighbours = neighbours

    async def edge(self, generation: int, side: tuple[int, int]) -> np.ndarray:
        """The cells that a neighbour in direction `side` sees, once this block is as old as `generation`."""
        async with self.grown:
            await self.grown.wait_for(lambda: len(self.history) > generation)
        cut = {-1: slice(0, 1), 0: slice(None), 1: slice(-1, None)}
        return self.history[generation][cut[side[0]], cut[side[1]]]

    async def run(self, generations: int) -> np.ndarray:
        for generation in range(generations):
            padded = np.zeros((BLOCK + 2, BLOCK + 2), dtype=np.int8)
            padded[1:-1, 1:-1] = self.history[generation]
            edges = await asyncio.gather(
                *[self.neighbours[dr, dc].edge.remote(generation, (-dr, -dc)) for dr, dc in SIDES]
            )
            place = {-1: slice(0, 1), 0: slice(1, -1), 1: slice(-1, None)}
            for (dr, dc), cells in zip(SIDES, edges, strict=True):
                padded[place[dr], place[dc]] = cells
            async with self.grown:
                self.history.append(next_generation(padded))
                self.grown.notify_all()
        return self.history[-1]


def play_on_actors(board: np.ndarray, generations: int) -> np.ndarray:
    def cut(row: int, column: int) -> np.ndarray:
        return board[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK]

    blocks = {(r, c): Block.remote(cut(r, c)) for r in range(GRID) for c in range(GRID)}
    ray.get(
        [
            block.meet.remote({(dr, dc): blocks[(r + dr) % GRID, (c + dc) % GRID] for dr, dc in SIDES})
            for (r, c), block in blocks.items()
        ]
    )
    played = ray.get([block.run.remote(generations) for block in blocks.values()])
    cells = dict(zip(blocks, played, strict=True))
    return np.block([[cells[r, c] for c in range(GRID)] for r in range(GRID)])


def play_here(board: np.ndarray, generations: int) -> np.ndarray:
    for _ in range(generations):
        board = next_generation(np.pad(board, 1, mode="wrap"))
    return board


def main() -> None:
    ray.init()
    board = np.zeros((SIZE, SIZE), dtype=np.int8)
    for row, column in GLIDER + BLINKER:
        board[row, column] = 1
    played = play_on_actors(board, generations=25)
    for row in played:
        print("".join("#" if cell else "." for cell in row))
    print(f"alive: {int(played.sum())}, as in one process: {np.array_equal(played, play_here(board, 25))}")
    ray.shutdown()


if __name__ == "__main__":
    main()
