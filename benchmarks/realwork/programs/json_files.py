"""400 JSON files are written once, then read and summed up by tasks of one file each. Runs in driver and workers."""

from __future__ import annotations

import json
import os
import random
import tempfile
from typing import Any

_FILES = 400
_ROWS = 400


def folder() -> str:
    """Where the files are; made by the first process that needs them, from one seed."""
    path = os.path.join(tempfile.gettempdir(), f"sundog-realwork-{os.getuid()}-json")
    os.makedirs(path, mode=0o700, exist_ok=True)
    for number in range(_FILES):
        name = os.path.join(path, f"{number}.json")
        if not os.path.exists(name):
            dice = random.Random(number)
            rows = [
                {
                    "id": row,
                    "price": dice.randrange(10_000),
                    "tags": [dice.choice("abcdef") for _ in range(5)],
                }
                for row in range(_ROWS)
            ]
            with open(f"{name}.{os.getpid()}", "w", encoding="utf-8") as file:
                json.dump(rows, file)
            os.replace(f"{name}.{os.getpid()}", name)
    return path


def names() -> list[str]:
    path = folder()
    return [os.path.join(path, f"{number}.json") for number in range(_FILES)]


def total(name: str) -> int:
    with open(name, encoding="utf-8") as file:
        rows = json.load(file)
    return sum(row["price"] for row in rows if "a" in row["tags"])


def serial() -> int:
    return sum(map(total, names()))


def raylike(ray: Any) -> int:
    task = ray.remote(total)
    return sum(ray.get([task.remote(name) for name in names()]))


def futures(executor: Any) -> int:
    return sum(executor.map(total, names()))


def pool(pool: Any) -> int:
    return sum(pool.map(total, names()))


def dask(client: Any) -> int:
    return sum(client.gather(client.map(total, names(), pure=False)))


def joblib(parallel: Any, delayed: Any) -> int:
    return sum(parallel(delayed(total)(name) for name in names()))
