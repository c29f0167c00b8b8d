"""When it happens: memory was running out and the monitor ended the worker that ran the task, or the task passed its
own `memory=` request with `enforce_memory=True`. A task that was ended while others ran is tried again first, as often
as `task_oom_retries` allows; a task that fills most of the memory by itself is not. The error carries the figures
(`used_bytes`, `total_bytes`, `threshold`, `own_bytes`), why this task was chosen (`reason`) and the largest users of
memory (`top_users`).

What to do: make the task use less memory, give it `memory=` so that fewer tasks run at once, or raise its limit. See
docs/memory.md."""

from __future__ import annotations

from sundog.exceptions import OutOfMemoryError

RAISES = OutOfMemoryError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=1, _system_config={"enforce_memory_by_cgroup": False})

    @ray.remote(memory=100e6, enforce_memory=True)
    def resize() -> int:
        pages = [b"\1" * 1_000_000 for _ in range(300)]
        while pages:
            pass
        return 0

    ray.get(resize.remote())
