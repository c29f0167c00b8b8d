"""A producer streams 5,000 rows of a log, one at a time, while the reader adds them up. Runs in driver and workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import Any

_ROWS = 5_000


def rows(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "id": number,
            "path": f"/item/{number % 97}",
            "bytes": number * 37 % 5000,
            "ok": number % 11 != 0,
        }


def _add(total: int, row: dict[str, Any]) -> int:
    return total + (row["bytes"] + len(row["path"]) if row["ok"] else 0)


def serial() -> int:
    total = 0
    for row in rows(_ROWS):
        total = _add(total, row)
    return total


def raylike(ray: Any) -> int:
    total = 0
    for ref in ray.remote(num_returns="streaming")(rows).remote(_ROWS):
        total = _add(total, ray.get(ref))
    return total


def _produce(sink: Any, count: int) -> None:
    for row in rows(count):
        sink.put(row)
    sink.put(None)


def pool(pool: Any) -> int:
    source: Any = multiprocessing.Queue()
    producer = multiprocessing.Process(target=_produce, args=(source, _ROWS))
    producer.start()
    total = 0
    while (row := source.get()) is not None:
        total = _add(total, row)
    producer.join()
    return total
