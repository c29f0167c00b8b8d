"""When it happens: the process that ran a task died, and the task has no retries left. The message names the
cause with its evidence: the exit code and the last lines of output, the signal and whether sundog sent it, or the stack
of a crash in C code.

What to do: remove the cause that the evidence shows. A task is retried after a crash `max_retries` times, 3 by
default.
"""

from __future__ import annotations

from sundog.exceptions import WorkerCrashedError

RAISES = WorkerCrashedError


def happen() -> None:
    import ctypes

    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote(max_retries=0)
    def read_address_zero() -> bytes:
        return ctypes.string_at(0)

    ray.get(read_address_zero.remote())
