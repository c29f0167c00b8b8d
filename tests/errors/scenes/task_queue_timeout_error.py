"""When it happens: a task or an actor's call did not start within its `queue_timeout_s`: its arguments were not ready,
no worker became free, or its actor had other calls to run first. It never runs after that.

What to do: the error says what it waited for (`waited_for`), and which line the call before it was at (`stack`),
if it had reached a worker. Give it more time, ask for less (`num_cpus`, `resources`), or share the calls among more
actors.
"""

from __future__ import annotations

from sundog.exceptions import TaskQueueTimeoutError

RAISES = TaskQueueTimeoutError


def happen() -> None:
    import time

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    class Counter:
        def recount(self) -> None:
            time.sleep(60)

        def total(self) -> int:
            return 0

    counter = Counter.remote()
    ray.get(counter.total.remote())
    counter.recount.remote()
    ray.get(counter.total.options(queue_timeout_s=0.5).remote())
