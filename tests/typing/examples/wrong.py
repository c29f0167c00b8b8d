"""Calls that type checkers must refuse. Each line with `# wrong` is an error, and no other line is one.

`# wrong: pyright` names the one checker that sees it: mypy ignores class decorators and cannot read a constructor's
parameters out of `type[T]`.
"""

from __future__ import annotations

import sundog as ray
from sundog.actor import typed


@ray.remote
def scale(value: float, factor: int = 2, *, unit: str = "m") -> str:
    return f"{value * factor} {unit}"


@ray.remote
def nothing() -> None:
    return None


class Counter:
    def __init__(self, start: int, *, step: int = 1) -> None:
        self.value = start

    @ray.method
    def add(self, amount: int) -> int:
        return self.value + amount


Remote = ray.remote(Counter)


def functions(text: ray.ObjectRef[str], whole: ray.ObjectRef[int]) -> None:
    scale.remote()  # wrong
    scale.remote("1.5")  # wrong
    scale.remote(1.5, "3")  # wrong
    scale.remote(1.5, units="km")  # wrong
    scale.remote(text)  # wrong
    scale.remote(1.5, text)  # wrong
    scale.remote(1.5, 2, "m")  # wrong
    nothing.remote(1)  # wrong
    number: int = ray.get(scale.remote(1.5))  # wrong
    ref: ray.ObjectRef[int] = scale.remote(1.5)  # wrong
    scale.options(num_cpu=2)  # wrong
    scale.options(num_cpus="2")  # wrong
    print(number, ref, whole)


def verbs(text: ray.ObjectRef[str]) -> None:
    ray.get(3)  # wrong
    ray.get("text")  # wrong
    ray.wait(text)  # wrong
    ray.wait([1])  # wrong
    ray.cancel(3)  # wrong
    ray.kill(text)  # wrong
    ray.get_actor(3)  # wrong
    ray.init(num_cpus="4")  # wrong
    number: list[int] = ray.get([text])  # wrong
    print(number)


@ray.remote(num_cpu=1)  # wrong
def misspelt() -> None:
    return None


def actors(text: ray.ObjectRef[str]) -> None:
    Remote.remote()  # wrong: pyright
    Remote.remote("1")  # wrong: pyright
    Remote.remote(text)  # wrong: pyright
    Remote.options(lifetime="for ever")  # wrong
    Remote.options(max_restart=1)  # wrong
    counter = typed(Remote.remote(1))
    counter.add.remote("1")  # wrong
    counter.add.remote(text)  # wrong
    counter.add.remote()  # wrong
    counter.subtract.remote(1)  # wrong
    number: str = ray.get(counter.add.remote(1))  # wrong
    print(number)
