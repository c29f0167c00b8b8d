"""When it happens: the only copy of a value from `put` is gone, because its segment was removed from shared memory. No
task can compute it again. The message names the object, the segment and the line that called `put`.

What to do: find what removes files below `/dev/shm` (a cleaner, another program's tests). Let a task make the value:
the result of a task is computed again when it is lost.
"""

from __future__ import annotations

from sundog.exceptions import ObjectLostError

RAISES = ObjectLostError


def happen() -> None:
    import os

    import sundog as ray
    from sundog.owner import context

    ray.init(num_cpus=1)
    ref = ray.put(b"x" * 1_000_000)
    folder = context.facts.session["shm_root"]
    for name in os.listdir(folder):
        if not name.startswith("."):
            os.unlink(f"{folder}/{name}")
    ray.get(ref)
