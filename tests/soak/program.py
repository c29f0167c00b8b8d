"""The program of a soak: a driver with tasks, actors that come and go, puts that spill, errors and deaths.

Owns one session with a small store. Prints one line of JSON with what the sampler has to know, plays rounds until its
standard input is closed, and prints how many there were. Every result is checked. Run as
``python -m tests.soak.program SEED``.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

import sundog as ray
from sundog.owner import context

STORE_BYTES = 64 << 20
# Small, so that rings and tables of what is gone are full in the first half of a short run too.
SETTINGS = {
    "capsule_keep": 40,
    "dead_process_files": 15,
    "record_ring_events": 4096,
    "record_events_max": 20_000,
    "verbose_spill_logs": 0,
    "task_retry_delay_ms": 0,
}
LENGTHS = (20_000, 60_000, 200_000, 400_000)
KEPT_OBJECTS = 40
PAUSE_S = 0.01


@ray.remote
def square(number: int) -> int:
    return number * number


@ray.remote
def total(*parts: Any) -> int:
    return int(sum(np.asarray(part).sum() for part in parts))


@ray.remote
def nested(number: int) -> int:
    return int(ray.get(square.remote(number))) + 1


@ray.remote
def block(number: int, length: int) -> Any:
    return np.full(length, number)


@ray.remote
def stream(count: int) -> Iterator[int]:
    yield from range(count)


@ray.remote(max_retries=0)
def fail(text: str) -> None:
    print(text)
    raise ValueError(text)


@ray.remote(max_retries=0)
def crash() -> None:
    os._exit(3)


@ray.remote
class Counter:
    """Lives for a moment, or for the whole run."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, number: int) -> int:
        self.value += number
        return self.value


@ray.remote
class Loop:
    """An asyncio actor."""

    async def echo(self, value: Any) -> Any:
        return value


class Soak:
    """The rounds, one after another."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.counter = Counter.remote()
        self.loop = Loop.remote()
        self.counted = 0
        self.objects: list[tuple[Any, int, int]] = []

    def round(self, number: int) -> None:
        """Some of everything."""
        assert ray.get([square.remote(each) for each in range(50)]) == [each * each for each in range(50)]
        self.counted += 1
        assert ray.get(self.counter.add.remote(1)) == self.counted
        assert ray.get(self.loop.echo.remote(number)) == number
        self._objects(number)
        if number % 3 == 0:
            self._actor(number)
        if number % 5 == 0:
            assert ray.get(nested.remote(number)) == number * number + 1
            assert sum(ray.get(list(stream.remote(5)))) == 10
        if number % 10 == 0:
            self._new_function(number)
            self._failure(fail.remote(f"failure {number}"), ValueError)
        if number % 50 == 0:
            self._failure(crash.remote(), ray.exceptions.WorkerCrashedError)

    def _objects(self, number: int) -> None:
        length = LENGTHS[number // 2 % len(LENGTHS)]
        ref = ray.put(np.full(length, number)) if number % 2 else block.remote(number, length)
        self.objects.append((ref, number, length))
        if len(self.objects) > KEPT_OBJECTS:
            del self.objects[self.dice.randrange(10)]
        found, value, size = self.dice.choice(self.objects)
        assert int(ray.get(found).sum()) == value * size
        if number % 7 == 0:
            assert ray.get(total.remote(found, found)) == 2 * value * size

    def _actor(self, number: int) -> None:
        name = f"short-{number}" if number % 2 else None
        actor = Counter.options(name=name).remote()
        assert ray.get([actor.add.remote(1) for _ in range(3)]) == [1, 2, 3]
        if name:
            assert ray.get(ray.get_actor(name).add.remote(1)) == 4
            ray.kill(actor)

    def _new_function(self, number: int) -> None:
        @ray.remote
        def fresh() -> int:
            return number

        assert ray.get(fresh.options(name=f"fresh-{number % 100}").remote()) == number

    def _failure(self, ref: Any, kind: type[BaseException]) -> None:
        try:
            ray.get(ref)
        except kind:
            return
        raise AssertionError(f"{kind.__name__} was not raised")


def main() -> None:
    """Play until standard input ends."""
    ray.init(num_cpus=2, object_store_memory=STORE_BYTES, log_to_driver=False, _system_config=dict(SETTINGS))
    session = context.facts.session
    facts = {"pid": os.getpid(), "path": session["path"], "shm_root": session["shm_root"]}
    print(json.dumps(facts), flush=True)
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    soak = Soak(int(sys.argv[1]))
    number = 0
    while not ended.wait(PAUSE_S):
        number += 1
        soak.round(number)
    print(json.dumps({"rounds": number}), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
