"""When it happens: `get(refs, timeout=…)` waited that long, and not every object was ready. The tasks continue.

What to do: ask again later, `cancel()` what you no longer want, or see what the tasks wait for with
`sundog status`.
"""

from __future__ import annotations

from sundog.exceptions import GetTimeoutError

RAISES = GetTimeoutError


def happen() -> None:
    import time

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    def sleep(seconds: float) -> None:
        time.sleep(seconds)

    ray.get(sleep.remote(0))
    ray.get(sleep.remote(1e6), timeout=0.1)
