"""When it happens: an actor died before it answered this call, and is being restarted. The call may have run
to its end, in part, or not at all. Or the call was made while the actor is being restarted: then it has not run, and
the text says so.

What to do: if the call may safely be made twice, create the actor with `max_task_retries`: such calls are made again,
and wait until the actor is restarted. Otherwise ask the actor whether the call ran.
"""

from __future__ import annotations

from sundog.exceptions import ActorUnavailableError

RAISES = ActorUnavailableError


def happen() -> None:
    import os

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote(max_restarts=1)
    class Counter:
        def crash(self) -> None:
            os._exit(3)

    counter = Counter.remote()
    ray.get(counter.crash.remote())
