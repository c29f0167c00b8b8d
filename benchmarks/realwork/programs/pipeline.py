"""Three stages pass 20,000 small messages on, with a bound on what is under way. Runs in driver and workers."""

from __future__ import annotations

import importlib
import multiprocessing
from collections import deque
from typing import Any

MESSAGES = 20_000
_BOUND = 256
_END = -1


class Stage:
    """A stage that hands each message on to the next one, at most `_BOUND` of them unanswered."""

    def __init__(self, ray: Any, scale: int, following: Any) -> None:
        self.ray, self.scale, self.following = ray, scale, following
        self.pending: deque[Any] = deque()

    def take(self, x: int) -> None:
        self.pending.append(self.following.take.remote(x * self.scale + 1))
        if len(self.pending) >= _BOUND:
            self.ray.get(self.pending.popleft())

    def flush(self) -> int:
        self.ray.get(list(self.pending))
        self.pending.clear()
        return int(self.ray.get(self.following.flush.remote()))


class Last:
    """The last stage: adds up what comes."""

    def __init__(self) -> None:
        self.total = 0

    def take(self, x: int) -> None:
        self.total += x

    def flush(self) -> int:
        return self.total


def serial() -> int:
    return sum((x * 2 + 1) * 3 + 1 for x in range(MESSAGES))


class _Verbs:
    """The module, by its name: what an actor of either system may keep. Imported once, as a program does."""

    def __init__(self, name: str) -> None:
        self.get: Any = importlib.import_module(name).get
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return _Verbs, (self.name,)


def raylike(ray: Any) -> int:
    verbs = _Verbs(ray.__name__)
    last = ray.remote(num_cpus=0)(Last).remote()
    middle = ray.remote(num_cpus=0)(Stage).remote(verbs, 3, last)
    entry = ray.remote(num_cpus=0)(Stage).remote(verbs, 2, middle)
    pending: deque[Any] = deque()
    for x in range(MESSAGES):
        pending.append(entry.take.remote(x))
        if len(pending) >= _BOUND:
            ray.get(pending.popleft())
    ray.get(list(pending))
    return int(ray.get(entry.flush.remote()))


def _stage(source: Any, sink: Any, scale: int) -> None:
    while (x := source.get()) != _END:
        sink.put(x * scale + 1)
    sink.put(_END)


def _last(source: Any, answer: Any) -> None:
    total = 0
    while (x := source.get()) != _END:
        total += x
    answer.put(total)


def pool(pool: Any) -> int:
    queues: list[Any] = [multiprocessing.Queue(_BOUND) for _ in range(3)]
    answer: Any = multiprocessing.Queue()
    stages = [
        multiprocessing.Process(target=_stage, args=(queues[0], queues[1], 2)),
        multiprocessing.Process(target=_stage, args=(queues[1], queues[2], 3)),
        multiprocessing.Process(target=_last, args=(queues[2], answer)),
    ]
    for stage in stages:
        stage.start()
    for x in range(MESSAGES):
        queues[0].put(x)
    queues[0].put(_END)
    total = int(answer.get())
    for stage in stages:
        stage.join()
    return total
