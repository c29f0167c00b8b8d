"""Classes under `@remote`: pyright reads the decorator, mypy ignores decorators of classes. Marks as in wrong.py."""

from __future__ import annotations

from typing import assert_type

import sundog as ray
from sundog.actor import ActorHandle, typed


@ray.remote(num_cpus=1, max_restarts=2)
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    @ray.method
    def add(self, amount: int) -> int:
        return self.value + amount


@ray.remote
class Plain:
    def name(self) -> str:
        return "plain"


def actors() -> None:
    handle = Counter.remote(ray.put(1))
    assert_type(ray.get(typed(handle).add.remote(2)), int)
    Plain.options(name="p").remote()
    Counter.remote("1")  # wrong
    Counter.remote(1, 2)  # wrong


def passed(handle: ActorHandle[int]) -> None:
    ray.kill(handle)
