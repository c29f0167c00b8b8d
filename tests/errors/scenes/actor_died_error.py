"""When it happens: an actor is permanently dead: its process died and `max_restarts` is used up, `kill()` or
`exit_actor()` ended it, its constructor raised, or its last handle went out of scope. Every later call raises
this too. The message names the cause.

What to do: remove the cause. If a new attempt may succeed, create the actor with `max_restarts` (`__init__` then builds
its state again) and `max_task_retries`.
"""

from __future__ import annotations

from sundog.exceptions import ActorDiedError

RAISES = ActorDiedError


def happen() -> None:
    import os

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    class Counter:
        def crash(self) -> None:
            os.abort()

    counter = Counter.remote()
    ray.get(counter.crash.remote())
