"""The actor that most tests of actors want: it counts, and says where it lives."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any


def make_counter(ray: ModuleType, **options: Any) -> Any:
    """The class of an actor, with options of the test's choice."""

    class Counter:
        def __init__(self, start: int = 0) -> None:
            self.value = start

        def add(self, amount: int = 1) -> int:
            self.value += amount
            return self.value

        def pid(self) -> int:
            return os.getpid()

    return ray.remote(**options)(Counter) if options else ray.remote(Counter)
