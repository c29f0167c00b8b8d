"""Words counted in 64 texts, partitioned by word and added up by 8 reducers. Runs in driver and workers."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from typing import Any

_TEXTS = 64
_WORDS = 20_000
_PARTS = 8


def text(number: int) -> list[str]:
    dice = random.Random(number)
    return [f"w{int(dice.paretovariate(1)) % 5000}" for _ in range(_WORDS)]


def count(number: int) -> list[dict[str, int]]:
    """The words of one text, one dict for each reducer."""
    parts: list[dict[str, int]] = [{} for _ in range(_PARTS)]
    for word, times in Counter(text(number)).items():
        parts[zlib.crc32(word.encode()) % _PARTS][word] = times
    return parts


def add_up(*parts: dict[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _check(reduced: Any) -> int:
    return sum(zlib.crc32(f"{word}{times}".encode()) for part in reduced for word, times in part.items())


def _columns(counted: Any) -> list[Any]:
    return list(zip(*counted))


def serial() -> int:
    return _check([add_up(*column) for column in _columns([count(number) for number in range(_TEXTS)])])


def raylike(ray: Any) -> int:
    mapper = ray.remote(num_returns=_PARTS)(count)
    reducer = ray.remote(add_up)
    counted = [mapper.remote(number) for number in range(_TEXTS)]
    return _check(ray.get([reducer.remote(*column) for column in _columns(counted)]))


def _reduce(column: Any) -> dict[str, int]:
    return add_up(*column)


def futures(executor: Any) -> int:
    return _check(executor.map(_reduce, _columns(executor.map(count, range(_TEXTS)))))


def pool(pool: Any) -> int:
    return _check(pool.map(_reduce, _columns(pool.map(count, range(_TEXTS)))))


def _pick(parts: list[dict[str, int]], index: int) -> dict[str, int]:
    return parts[index]


def dask(client: Any) -> int:
    counted = client.map(count, range(_TEXTS), pure=False)
    columns = [[client.submit(_pick, each, part, pure=False) for each in counted] for part in range(_PARTS)]
    return _check(client.gather([client.submit(add_up, *column, pure=False) for column in columns]))


def joblib(parallel: Any, delayed: Any) -> int:
    counted = parallel(delayed(count)(number) for number in range(_TEXTS))
    return _check(parallel(delayed(add_up)(*column) for column in _columns(counted)))
