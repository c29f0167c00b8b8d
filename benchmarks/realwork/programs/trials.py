"""400 trials of a search, eight at a time: the next is chosen when one has ended. Runs in driver and workers."""

from __future__ import annotations

from typing import Any

_TRIALS = 400
_UNDER_WAY = 8
_STEPS = 20_000


def trial(number: int) -> tuple[int, int]:
    """The number of a trial and its score; some take three times as long as others."""
    score = number
    for step in range(_STEPS * (1 + number % 3)):
        score = (score * 31 + step) & 0xFFFFF
    return number, score


def _best(outcomes: list[tuple[int, int]]) -> list[int]:
    best = max(outcomes, key=lambda outcome: (outcome[1], -outcome[0]))
    return [len(outcomes), *best]


def serial() -> list[int]:
    return _best([trial(number) for number in range(_TRIALS)])


def raylike(ray: Any) -> list[int]:
    task = ray.remote(trial)
    numbers = iter(range(_TRIALS))
    pending = [task.remote(next(numbers)) for _ in range(_UNDER_WAY)]
    outcomes = []
    while pending:
        (done,), pending = ray.wait(pending, num_returns=1)
        outcomes.append(ray.get(done))
        for number in numbers:
            pending.append(task.remote(number))
            break
    return _best(outcomes)


def futures(executor: Any) -> list[int]:
    from concurrent.futures import FIRST_COMPLETED, wait

    numbers = iter(range(_TRIALS))
    pending = {executor.submit(trial, next(numbers)) for _ in range(_UNDER_WAY)}
    outcomes = []
    while pending:
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for each in done:
            outcomes.append(each.result())
            for number in numbers:
                pending.add(executor.submit(trial, number))
                break
    return _best(outcomes)


def dask(client: Any) -> list[int]:
    from distributed import as_completed

    numbers = iter(range(_TRIALS))
    running = as_completed([client.submit(trial, next(numbers), pure=False) for _ in range(_UNDER_WAY)])
    outcomes = []
    for done in running:
        outcomes.append(done.result())
        for number in numbers:
            running.add(client.submit(trial, number, pure=False))
            break
    return _best(outcomes)
