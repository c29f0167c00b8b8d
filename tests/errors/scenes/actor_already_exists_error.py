"""When it happens: a named actor was created under a name that another actor of the same namespace has.

What to do: share that actor with `get_actor(name)` or `get_if_exists=True`, choose another name, or `kill()`
it first.
"""

from __future__ import annotations

from sundog.exceptions import ActorAlreadyExistsError

RAISES = ActorAlreadyExistsError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    class Counter:
        pass

    first = Counter.options(name="counter", namespace="shop").remote()
    Counter.options(name="counter", namespace="shop").remote()
