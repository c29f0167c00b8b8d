"""Producers and consumers around a shared queue, found by name.

The queue is bounded, so producers wait when consumers are slow. The scoreboard is a named actor: consumers
look it up instead of being handed it.
"""

import ray
from ray.util.queue import Empty, Queue

PRODUCERS = 2
CONSUMERS = 3
ITEMS_PER_PRODUCER = 20


@ray.remote
class Scoreboard:
    def __init__(self) -> None:
        self.squares: dict[int, int] = {}

    def add(self, number: int, square: int) -> None:
        self.squares[number] = square

    def all(self) -> dict[int, int]:
        return self.squares


@ray.remote(num_cpus=0)
def produce(queue: Queue, first: int) -> int:
    for number in range(first, first + ITEMS_PER_PRODUCER):
        queue.put(number)
    return ITEMS_PER_PRODUCER


@ray.remote(num_cpus=0)
def consume(queue: Queue) -> int:
    board = ray.get_actor("scoreboard")
    handled = 0
    while (number := queue.get(block=True)) is not None:
        ray.get(board.add.remote(number, number**2))
        handled += 1
    return handled


def main() -> None:
    ray.init()
    board = Scoreboard.options(name="scoreboard").remote()
    queue = Queue(maxsize=8)
    consumers = [consume.remote(queue) for _ in range(CONSUMERS)]
    made = ray.get([produce.remote(queue, p * ITEMS_PER_PRODUCER) for p in range(PRODUCERS)])
    for _ in consumers:
        queue.put(None)

    print(f"made {made}, handled {sum(ray.get(consumers))}")
    squares = ray.get(board.all.remote())
    print(f"all there: {squares == {n: n * n for n in range(PRODUCERS * ITEMS_PER_PRODUCER)}}")
    try:
        queue.get(block=False)
    except Empty:
        print(f"the queue is empty: size {queue.qsize()}")
    queue.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
