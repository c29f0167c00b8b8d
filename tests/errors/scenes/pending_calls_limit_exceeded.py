"""When it happens: this process has as many calls waiting at an actor as its `max_pending_calls` allows.

What to do: wait for some of the results before you call again, or raise the limit.
"""

from __future__ import annotations

from sundog.exceptions import PendingCallsLimitExceeded

RAISES = PendingCallsLimitExceeded


def happen() -> None:
    import time

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote(max_pending_calls=2)
    class Slow:
        def work(self) -> None:
            time.sleep(1e6)

    slow = Slow.remote()
    refs = [slow.work.remote() for _ in range(3)]
