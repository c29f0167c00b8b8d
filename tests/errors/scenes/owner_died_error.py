"""When it happens: the process that owned an object is gone. An object belongs to the process that called `.remote()`
or `put()` for it and ends with it, so a ref that a worker or actor hands out does not outlive that worker. The message
names the process, its pid, why it ended and the line that made the ref.

What to do: create what must outlive an actor in the driver, or return the value itself instead of a ref to it.
"""

from __future__ import annotations

from sundog.exceptions import OwnerDiedError

RAISES = OwnerDiedError


def happen() -> None:
    import sundog as ray

    ray.init(num_cpus=1)

    @ray.remote
    class Maker:
        def make(self) -> list[object]:
            return [ray.put(b"x" * 1_000_000)]

    maker = Maker.remote()  # type: ignore[attr-defined]
    [ref] = ray.get(maker.make.remote())
    ray.kill(maker)
    try:
        ray.get(maker.make.remote())  # returns once the death is known here
    except ray.exceptions.ActorDiedError:
        ray.get(ref)
