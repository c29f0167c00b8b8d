"""When it happens: a generator was run again after a crash, and yielded fewer items than its consumer has been
given.

What to do: have it yield the same items each time, or give it `max_retries=0`.
"""

from __future__ import annotations

from sundog.exceptions import StreamingGeneratorReplayInconsistentError

RAISES = StreamingGeneratorReplayInconsistentError


def happen() -> None:
    import os
    import time

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote(max_retries=1, num_returns="streaming")
    def numbers():
        last = ray.get_runtime_context().get_attempt_number() > 0
        for number in range(1 if last else 3):
            yield number
        if not last:
            time.sleep(0.2)  # let the items arrive
            os._exit(1)

    for ref in numbers.remote():
        ray.get(ref)
