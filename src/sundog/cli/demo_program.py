# mypy: ignore-errors
"""The program that `sundog demo` runs: a user's program, written against `import ray`.

The program counts the primes below a limit three ways: each block awaited before the next is submitted, all blocks at
once, and through one actor. The answers agree; the time they take does not, which is what the demo shows.
Runs in the driver's main thread. Types are not checked here: `import ray` is only sundog after
`sundog run` (or `sundog demo`) has said so.
"""

import ray

BLOCKS = 12
BLOCK_SIZE = 8_000


def primes_between(first: int, last: int) -> int:
    def is_prime(number: int) -> bool:
        return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))

    return sum(map(is_prime, range(first, last)))


@ray.remote
def count_block(block: int) -> int:
    return primes_between(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE)


@ray.remote
class Counter:
    def __init__(self) -> None:
        self.total = 0

    def add_block(self, block: int) -> int:
        self.total += primes_between(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE)
        return self.total


def one_by_one() -> int:
    slow = count_block.options(name="one_by_one")
    return sum(ray.get(slow.remote(block)) for block in range(BLOCKS))


def all_at_once() -> int:
    fast = count_block.options(name="all_at_once")
    return sum(ray.get([fast.remote(block) for block in range(BLOCKS)]))


def through_one_actor() -> int:
    counter = Counter.remote()
    return max(ray.get([counter.add_block.remote(block) for block in range(BLOCKS)]))


def main() -> None:
    ray.init()
    for way in (one_by_one, all_at_once, through_one_actor):
        print(f"{way.__name__.replace('_', ' ')}: {way()} primes below {BLOCKS * BLOCK_SIZE}")


if __name__ == "__main__":
    main()
    ray.shutdown()
