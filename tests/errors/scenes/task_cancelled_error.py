"""When it happens: the task was cancelled with `cancel()`, or with the task that had started it, before it
finished.

What to do: nothing, if you wanted that. To cancel a task but not the tasks that it started, call
`cancel(ref, recursive=False)`.
"""

from __future__ import annotations

from sundog.exceptions import TaskCancelledError

RAISES = TaskCancelledError


def happen() -> None:
    import time

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    def wait_for_ever() -> None:
        time.sleep(1e6)

    running, waiting = wait_for_ever.remote(), wait_for_ever.remote()
    ray.cancel(waiting)
    ray.get(waiting)
