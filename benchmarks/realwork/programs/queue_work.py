"""Two producers put 4,000 orders into a bounded queue, two consumers take them out. Runs in driver and workers."""

from __future__ import annotations

import importlib
import multiprocessing
from typing import Any

_ORDERS = 2_000  # of each producer
_BOUND = 100


def order(producer: int, number: int) -> dict[str, Any]:
    return {"producer": producer, "number": number, "items": [number % 7, number % 5, number % 3]}


def price(each: dict[str, Any]) -> int:
    return int(sum(each["items"]) * (each["producer"] + 1))


def produce(queue: Any, producer: int) -> int:
    for number in range(_ORDERS):
        queue.put(order(producer, number))
    queue.put(None)
    return producer


def consume(queue: Any) -> int:
    total = 0
    while (each := queue.get()) is not None:
        total += price(each)
    return total


def serial() -> int:
    return sum(price(order(producer, number)) for producer in range(2) for number in range(_ORDERS))


def raylike(ray: Any) -> int:
    queue = importlib.import_module(f"{ray.__name__}.util.queue").Queue(maxsize=_BOUND)
    # Each takes a part of a CPU: all four have to run at the same time.
    producer, consumer = ray.remote(num_cpus=0.5)(produce), ray.remote(num_cpus=0.5)(consume)
    made = [producer.remote(queue, number) for number in range(2)]
    total = sum(ray.get([consumer.remote(queue) for _ in range(2)]))
    ray.get(made)
    queue.shutdown()
    return int(total)


def _consume(queue: Any, answers: Any) -> None:
    answers.put(consume(queue))


def pool(pool: Any) -> int:
    queue: Any = multiprocessing.Queue(_BOUND)
    answers: Any = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=produce, args=(queue, number)) for number in range(2)]
    processes += [multiprocessing.Process(target=_consume, args=(queue, answers)) for _ in range(2)]
    for process in processes:
        process.start()
    total = sum(answers.get() for _ in range(2))
    for process in processes:
        process.join()
    return int(total)
