"""When it happens: a `get` or `wait` without a timeout can never end, because it is part of a cycle of waits: of other
tasks, of actors that are busy, or of a resource that one of them holds.

What to do: return the ref instead of waiting for it inside the call, give the actor `max_concurrency` or coroutines
as methods, or do not hold a resource while waiting for a task that needs it. The message names each wait of the cycle
with its stack; `error.cycle` has the same as data.
"""

# mypy: disable-error-code="attr-defined"
from __future__ import annotations

from sundog.exceptions import DeadlockError

RAISES = DeadlockError


def happen() -> None:
    from typing import Any

    import sundog as ray

    ray.init(num_cpus=2)

    @ray.remote(num_cpus=0)
    class Asker:
        def name(self) -> str:
            return "asker"

        def ask(self, other: Any, me: Any) -> Any:
            return ray.get(other.greet.remote(me))

    @ray.remote(num_cpus=0)
    class Greeter:
        def greet(self, asker: Any) -> str:
            return f"hello {ray.get(asker.name.remote())}"

    asker, greeter = Asker.remote(), Greeter.remote()
    ray.get(asker.ask.remote(greeter, asker))
