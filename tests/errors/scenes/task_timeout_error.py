"""When it happens: a task or an actor's call ran longer than its `timeout_s`. Its worker interrupted it at once, so the
worker, or the actor with its state, can be used again. A task that does not stop within `timeout_grace_s` has its
worker killed; a call that does not stop still runs in its actor, and the error says so (`goes_on`).

What to do: the error carries the stack of the moment when the time was over (`stack`). If the stack shows
useful work, give the task more time. To retry it, name the error in `retry_exceptions`.
"""

from __future__ import annotations

from sundog.exceptions import TaskTimeoutError

RAISES = TaskTimeoutError


def happen() -> None:
    import time

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote(timeout_s=0.2)
    def fetch(seconds: float) -> None:
        time.sleep(seconds)

    ray.get(fetch.remote(60))
