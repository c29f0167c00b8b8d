"""When it happens: the code of a task or of an actor's method raised. The error that `get` raises is also an instance
of the class that the code raised, so `except ZeroDivisionError` catches this one. Its text is the traceback of the
remote code, without sundog's own frames; an error that passed through several tasks is one stack.

What to do: read the last line and the frame above it, as with any traceback. `error.cause` is the exception
itself. If another attempt may succeed, give the task `retry_exceptions=[…]`.
"""

from __future__ import annotations

from sundog.exceptions import RayTaskError

RAISES = RayTaskError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=2)

    @ray.remote
    def divide(total: float, parts: int) -> float:
        return total / parts

    @ray.remote
    def average(values: list[float]) -> float:
        return ray.get(divide.remote(sum(values), len(values)))

    ray.get(average.remote([]))
