"""When it happens: a generator was run again after a crash, and yielded fewer items than its consumer has been
given.

What to do: make the generator yield the same items each time, or give it `max_retries=0`.
"""

from __future__ import annotations

from sundog.exceptions import StreamingGeneratorReplayInconsistentError

RAISES = StreamingGeneratorReplayInconsistentError


def happen() -> None:
    import os
    import signal
    import time

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote(max_retries=1, num_returns="streaming")
    def parts():
        first_attempt = ray.get_runtime_context().get_attempt_number() == 0
        for _ in range(3 if first_attempt else 1):
            yield os.getpid()
        if first_attempt:
            time.sleep(1e6)

    for number, ref in enumerate(parts.remote(), start=1):
        pid = ray.get(ref)
        if number == 3:
            os.kill(pid, signal.SIGKILL)
