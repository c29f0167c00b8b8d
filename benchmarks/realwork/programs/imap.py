"""`imap_unordered` over 20,000 tiny items with chunk size 1: the price of one item. Runs in driver and workers."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.realwork import WORKERS

ITEMS = 20_000


def square(item: int) -> int:
    return item * item


def serial() -> int:
    return sum(map(square, range(ITEMS)))


def raylike(ray: Any) -> int:
    module = importlib.import_module(f"{ray.__name__}.util.multiprocessing")
    with module.Pool(WORKERS) as pool:
        return sum(pool.imap_unordered(square, range(ITEMS), chunksize=1))


def pool(pool: Any) -> int:
    return sum(pool.imap_unordered(square, range(ITEMS), chunksize=1))


def futures(executor: Any) -> int:
    return sum(executor.map(square, range(ITEMS), chunksize=1))
